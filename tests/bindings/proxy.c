/* Uses proxies in front of the HTTP server that listens on the given port. */

#define _POSIX_C_SOURCE 200809L
#include "client.h"
#include "outcome.h"

static mcpm_error *error = NULL;
static const char *target;

static mcpm_proxy_builder *builder(void)
{
    mcpm_proxy_builder *made = mcpm_proxy_builder_new();
    mcpm_proxy_builder_server_name(made, "everything");
    mcpm_proxy_builder_target_uri(made, target);
    return made;
}

static mcpm_proxy *start(void)
{
    mcpm_proxy_builder *options = builder();
    mcpm_proxy *proxy = NULL;
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);
    return proxy;
}

static mcpm_phase phase_of(const mcpm_proxy *proxy)
{
    mcpm_phase phase = MCPM_PHASE_FAILED;
    DONE(mcpm_proxy_status(proxy, &phase, &error));
    return phase;
}

static void a_proxy_is_used_and_stopped(void)
{
    mcpm_proxy *proxy = start();
    char url[256];
    snprintf(url, sizeof url, "%s", mcpm_proxy_url(proxy));
    CHECK(strcmp(mcpm_proxy_name(proxy), "everything") == 0);
    CHECK(phase_of(proxy) == MCPM_PHASE_RUNNING);
    use(url);

    mcpm_proxy_builder *options = builder();
    int port = 0;
    CHECK(sscanf(url, "http://127.0.0.1:%d/", &port) == 1);
    mcpm_proxy_builder_port(options, (uint16_t)port);
    mcpm_proxy *second = NULL;
    mcpm_error *taken = NULL;
    CHECK(mcpm_proxy_start(options, &second, &taken) == MCPM_STATUS_PORT_TAKEN);
    CHECK(mcpm_error_status(taken) == MCPM_STATUS_PORT_TAKEN && second == NULL);
    mcpm_error_free(taken);
    mcpm_proxy_builder_free(options);

    DONE(mcpm_proxy_stop(proxy, &error));
    CHECK(phase_of(proxy) == MCPM_PHASE_STOPPED);
    CHECK(post(url, "{}") == 0);
    DONE(mcpm_proxy_stop(proxy, &error));
    CHECK(strcmp(mcpm_proxy_url(proxy), url) == 0);
    mcpm_proxy_free(proxy);
}

static void warnings_and_a_check_are_told(void)
{
    mcpm_proxy *proxy = start();
    CHECK(mcpm_proxy_warning(proxy, 0) == NULL);
    char nothing[] = "", *remark = nothing;
    DONE(mcpm_proxy_check(proxy, &remark, &error));
    CHECK(remark == NULL);
    DONE(mcpm_proxy_check(proxy, NULL, &error));
    mcpm_proxy_free(proxy);

    mcpm_proxy_builder *options = mcpm_proxy_builder_new();
    mcpm_proxy_builder_server_name(options, "nowhere");
    mcpm_proxy_builder_target_uri(options, "http://127.0.0.1:1/mcp");
    mcpm_proxy_builder_oidc_audience(options, "notes");
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);
    CHECK(strstr(mcpm_proxy_warning(proxy, 0), "`oidc_audience` has no effect") != NULL);
    CHECK(mcpm_proxy_warning(proxy, 1) == NULL && mcpm_proxy_warning(NULL, 0) == NULL);
    mcpm_error *failed = NULL;
    CHECK(mcpm_proxy_check(proxy, NULL, &failed) == MCPM_STATUS_START_FAILED);
    mcpm_error_free(failed);
    mcpm_proxy_free(proxy);
}

static void operations_call_back(void)
{
    mcpm_proxy_builder *options = builder();
    struct outcome started = OUTCOME, checked = OUTCOME, stopped = OUTCOME, failed = OUTCOME;
    DONE(mcpm_proxy_start_async(options, on_proxy_started, &started, NULL, &error));
    mcpm_proxy_builder_free(options);
    mcpm_proxy *proxy = (mcpm_proxy *)await_result(&started);
    use(mcpm_proxy_url(proxy));
    DONE(mcpm_proxy_check_async(proxy, on_text, &checked, NULL, &error));
    CHECK(await_result(&checked) == NULL);
    DONE(mcpm_proxy_stop_async(proxy, on_end, &stopped, &error));
    CHECK(await_result(&stopped) == NULL && phase_of(proxy) == MCPM_PHASE_STOPPED);
    mcpm_proxy_free(proxy);

    options = builder();
    mcpm_proxy_builder_target_uri(options, "http://127.0.0.1:1/mcp");
    mcpm_proxy_builder_in_process_only(options, true);
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);
    DONE(mcpm_proxy_check_async(proxy, on_text, &failed, NULL, &error));
    await_failure(&failed, MCPM_STATUS_START_FAILED);
    mcpm_proxy_free(proxy);
}

static void the_program_connects_in_process(void)
{
    mcpm_proxy *proxy = start();
    const char *transports[] = {NULL, "streamable-http"};
    for (size_t at = 0; at < sizeof transports / sizeof *transports; at++) {
        mcpm_connection *connection = NULL;
        DONE(mcpm_proxy_connect(proxy, NULL, transports[at], &connection, &error));
        DONE(mcpm_connection_send(connection,
                                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                                  "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
                                  "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}",
                                  &error));
        char *message = NULL;
        DONE(mcpm_connection_receive(connection, &message, &error));
        CHECK(message != NULL && strstr(message, "mcp-conformance-test-server") != NULL);
        mcpm_string_free(message);
        DONE(mcpm_connection_close(connection, &error));
        DONE(mcpm_connection_receive(connection, &message, &error));
        CHECK(message == NULL);
        mcpm_connection_free(connection);
    }
    mcpm_connection *none = NULL;
    REFUSED(mcpm_proxy_connect(proxy, NULL, "pigeon", &none, &error), MCPM_STATUS_BAD_ARGUMENT);
    CHECK(none == NULL);
    mcpm_proxy_free(proxy);
}

static void mistakes_are_told(void)
{
    mcpm_proxy *proxy = NULL;
    mcpm_proxy_builder *options = builder();
    mcpm_proxy_builder_target_uri(options, "ftp://nowhere");
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_INVALID_OPTION);
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_proxy_builder_free(options);

    options = builder();
    mcpm_proxy_builder_set(options, "port", "many");
    mcpm_proxy_builder_set(options, "colour", "red");
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_INVALID_OPTION);
    mcpm_proxy_builder_free(options);

    options = builder();
    mcpm_proxy_builder_remote_auth(options, true);
    mcpm_proxy_builder_remote_auth_bearer_token(options, "hidden");
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_INVALID_OPTION);
    mcpm_proxy_builder_free(options);

    options = builder();
    mcpm_proxy_builder_host(options, NULL);
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_proxy_start(NULL, &proxy, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_proxy_start(options, NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_proxy_status(NULL, NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_proxy_stop(NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    CHECK(mcpm_proxy_stop(NULL, NULL) == MCPM_STATUS_BAD_ARGUMENT);
    CHECK(mcpm_proxy_url(NULL) == NULL && mcpm_proxy_name(NULL) == NULL);
    mcpm_proxy_builder_free(options);
    mcpm_proxy_builder_free(NULL);
    mcpm_proxy_free(NULL);
    CHECK(proxy == NULL);
}

static void a_refusal_is_explained(void)
{
    mcpm_proxy_builder *options = builder();
    mcpm_proxy_builder_tools(options, "!test_simple_text");
    mcpm_proxy *proxy = NULL;
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);

    const char *id = refused_call(mcpm_proxy_url(proxy), "test_simple_text");
    mcpm_explanation *explanation = NULL;
    DONE(mcpm_proxy_explain(proxy, id, &explanation, &error));
    CHECK(strcmp(mcpm_explanation_reason(explanation), "tools.not_listed") == 0);
    CHECK(strcmp(mcpm_explanation_layer(explanation), "tools") == 0);
    CHECK(strcmp(mcpm_explanation_server(explanation), "everything") == 0);
    CHECK(strstr(mcpm_explanation_fix(explanation), "remove `!test_simple_text` from") != NULL);
    CHECK(strlen(mcpm_explanation_time(explanation)) == strlen("2026-01-01T00:00:00.000Z"));
    CHECK(strcmp(mcpm_explanation_rule(explanation), "!test_simple_text") == 0);
    const char *name = NULL, *value = NULL;
    CHECK(mcpm_explanation_input(explanation, 0, &name, &value));
    CHECK(strcmp(name, "method") == 0 && strcmp(value, "tools/call") == 0);
    CHECK(mcpm_explanation_input(explanation, 1, &name, &value));
    CHECK(strcmp(name, "tool") == 0 && strcmp(value, "test_simple_text") == 0);
    CHECK(!mcpm_explanation_input(explanation, 2, &name, &value) && strcmp(name, "tool") == 0);
    CHECK(!mcpm_explanation_input(explanation, 0, NULL, &value));
    mcpm_explanation_free(explanation);
    /* The explanation is valid after the end of the proxy, too. */
    explanation = NULL;
    DONE(mcpm_explain(id, &explanation, &error));
    CHECK(strcmp(mcpm_explanation_reason(explanation), "tools.not_listed") == 0);
    mcpm_explanation_free(explanation);

    DONE(mcpm_explain("origin.not_allowed", &explanation, &error));
    CHECK(strstr(mcpm_explanation_meaning(explanation), "web page") != NULL);
    CHECK(strstr(mcpm_explanation_usual_fix(explanation), "`allowed_origins`") != NULL);
    CHECK(mcpm_explanation_fix(explanation) == NULL && mcpm_explanation_server(explanation) == NULL);
    CHECK(!mcpm_explanation_input(explanation, 0, &name, &value));
    mcpm_explanation_free(explanation);
    mcpm_explanation_free(NULL);
    CHECK(mcpm_explanation_reason(NULL) == NULL && !mcpm_explanation_input(NULL, 0, &name, &value));
    REFUSED(mcpm_explain("tools.unheard", &explanation, &error), MCPM_STATUS_NOT_FOUND);
    REFUSED(mcpm_proxy_explain(proxy, NULL, &explanation, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_proxy_explain(NULL, id, &explanation, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_explain("tools.not_listed", NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_proxy_free(proxy);
}

static void a_shutdown_ends_proxies_and_a_start_begins_anew(void)
{
    mcpm_proxy *proxy = start();
    DONE(mcpm_shutdown(&error));
    CHECK(phase_of(proxy) == MCPM_PHASE_STOPPED);
    CHECK(post(mcpm_proxy_url(proxy), "{}") == 0);
    DONE(mcpm_proxy_stop(proxy, &error));
    mcpm_proxy_free(proxy);

    proxy = start();
    use(mcpm_proxy_url(proxy));
    mcpm_proxy_free(proxy);
    DONE(mcpm_shutdown(&error));
    DONE(mcpm_shutdown(&error));
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    target = arguments[1];
    a_proxy_is_used_and_stopped();
    warnings_and_a_check_are_told();
    operations_call_back();
    the_program_connects_in_process();
    mistakes_are_told();
    a_refusal_is_explained();
    a_shutdown_ends_proxies_and_a_start_begins_anew();
    return 0;
}
