/* Uses the server of an image without a port, with callbacks: embedded IMAGE SILENT-IMAGE PREFIX FILE. Names begin with the
 * prefix; the second image never answers; options are exported to the file. */

#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

/* Whether a value is present and this text. */
static int is(const char *value, const char *text)
{
    return value != NULL && strcmp(value, text) == 0;
}

static mcpm_error *error = NULL;

/* What a callback has brought, and whether it was called. */
struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int called;
    mcpm_workload *workload;
    char *message;
    mcpm_error *error;
};

#define OUTCOME {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, NULL, NULL}

static void deliver(struct outcome *outcome, mcpm_workload *workload, char *message, mcpm_error *failure)
{
    pthread_mutex_lock(&outcome->lock);
    outcome->called += 1;
    outcome->workload = workload;
    outcome->message = message;
    outcome->error = failure;
    pthread_cond_signal(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

static void on_started(void *user_data, mcpm_workload *workload, mcpm_error *failure)
{
    deliver((struct outcome *)user_data, workload, NULL, failure);
}

static void on_message(void *user_data, char *message, mcpm_error *failure)
{
    deliver((struct outcome *)user_data, NULL, message, failure);
}

static void on_end(void *user_data, mcpm_error *failure)
{
    deliver((struct outcome *)user_data, NULL, NULL, failure);
}

/* Waits until a callback was called this often. */
static void await_calls(struct outcome *outcome, int calls)
{
    pthread_mutex_lock(&outcome->lock);
    while (outcome->called < calls) {
        pthread_cond_wait(&outcome->changed, &outcome->lock);
    }
    pthread_mutex_unlock(&outcome->lock);
}

/* The kinds of the events, in their order. */
struct events {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mcpm_event_kind kinds[64];
    int count;
    int freed;
};

static void on_event(void *user_data, mcpm_event_kind kind, const mcpm_record *event)
{
    struct events *events = (struct events *)user_data;
    CHECK(mcpm_record_get(event, "event") != NULL && mcpm_record_json(event)[0] == '{');
    if (kind == MCPM_EVENT_KIND_READY) {
        CHECK(is(mcpm_record_get(event, "url"), ""));
    }
    /* This thread belongs to mcpm. */
    CHECK(mcpm_shutdown(NULL) == MCPM_STATUS_NOT_HERE);
    pthread_mutex_lock(&events->lock);
    if (events->count < 64) {
        events->kinds[events->count++] = kind;
    }
    pthread_cond_signal(&events->changed);
    pthread_mutex_unlock(&events->lock);
}

static void free_events(void *user_data)
{
    struct events *events = (struct events *)user_data;
    pthread_mutex_lock(&events->lock);
    events->freed += 1;
    pthread_cond_signal(&events->changed);
    pthread_mutex_unlock(&events->lock);
}

static struct events heard = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {MCPM_EVENT_KIND_WARNING}, 0, 0};

static mcpm_workload_builder *builder(const char *image, const char *name)
{
    mcpm_workload_builder *made = mcpm_workload_builder_new();
    mcpm_workload_builder_server(made, image);
    mcpm_workload_builder_name(made, name);
    mcpm_workload_builder_tools(made, "!test_image_content");
    mcpm_workload_builder_in_process_only(made, true);
    return made;
}

/* Sends a message and returns the answer, which must be freed. */
static char *exchange(mcpm_connection *connection, const char *message)
{
    char *answer = NULL;
    DONE(mcpm_connection_send(connection, message, &error));
    DONE(mcpm_connection_receive(connection, &answer, &error));
    CHECK(answer != NULL);
    return answer;
}

static void the_server_is_used(mcpm_workload *workload)
{
    mcpm_connection *connection = NULL;
    DONE(mcpm_workload_connect(workload, NULL, &connection, &error));
    char *answer = exchange(connection, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\n"
                                        "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
                                        "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}");
    CHECK(strstr(answer, "mcp-conformance-test-server") != NULL);
    mcpm_string_free(answer);
    DONE(mcpm_connection_send(connection, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &error));
    answer = exchange(connection, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
                                  "\"params\":{\"name\":\"test_simple_text\",\"arguments\":{}}}");
    CHECK(strstr(answer, "\"id\":2") != NULL && strstr(answer, "simple text") != NULL);
    mcpm_string_free(answer);
    /* The filter holds on this way, too. */
    answer = exchange(connection, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\","
                                  "\"params\":{\"name\":\"test_image_content\",\"arguments\":{}}}");
    CHECK(strstr(answer, "tools.not_listed") != NULL);
    mcpm_string_free(answer);

    struct outcome received = OUTCOME;
    mcpm_operation *operation = NULL;
    DONE(mcpm_connection_receive_async(connection, on_message, &received, &operation, &error));
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    await_calls(&received, 1);
    CHECK(mcpm_error_status(received.error) == MCPM_STATUS_INTERRUPTED);
    mcpm_error_free(received.error);
    DONE(mcpm_connection_receive_async(connection, on_message, &received, NULL, &error));
    struct outcome sent = OUTCOME;
    DONE(mcpm_connection_send_async(connection, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}", on_end, &sent,
                                    &error));
    await_calls(&sent, 1);
    CHECK(sent.error == NULL);
    await_calls(&received, 2);
    CHECK(received.error == NULL && strstr(received.message, "\"id\":4") != NULL);
    mcpm_string_free(received.message);

    DONE(mcpm_connection_close(connection, &error));
    answer = NULL;
    DONE(mcpm_connection_receive(connection, &answer, &error));
    CHECK(answer == NULL);
    mcpm_error *closed = NULL;
    CHECK(mcpm_connection_send(connection, "{}", &closed) == MCPM_STATUS_UPSTREAM);
    mcpm_error_free(closed);
    mcpm_connection_free(connection);
}

static bool count_output(void *user_data, mcpm_log_stream stream, const uint8_t *bytes, size_t length)
{
    CHECK((stream == MCPM_LOG_STREAM_STDOUT || stream == MCPM_LOG_STREAM_STDERR) && bytes != NULL);
    *(size_t *)user_data += length;
    return true;
}

static void its_record_is_read(const char *name, const char *file)
{
    mcpm_record_list *list = NULL;
    DONE(mcpm_workloads_list(&list, &error));
    CHECK(mcpm_record_list_length(list) == 1 && mcpm_record_list_get(list, 1) == NULL);
    const mcpm_record *listed = mcpm_record_list_get(list, 0);
    CHECK(is(mcpm_record_get(listed, "name"), name));
    CHECK(is(mcpm_record_get(listed, "status"), "running") && mcpm_record_get(listed, "url") == NULL);
    mcpm_record_list_free(list);
    mcpm_record *info = NULL;
    DONE(mcpm_workloads_info(name, &info, &error));
    CHECK(is(mcpm_record_get(info, "transport"), "stdio") && mcpm_record_get(info, "colour") == NULL);
    mcpm_record_free(info);
    size_t bytes = 0;
    DONE(mcpm_workloads_logs(name, false, -1, count_output, &bytes, &error));
    CHECK(bytes > 0);
    DONE(mcpm_workloads_export_to(name, file, &error));
    mcpm_error *missing = NULL;
    CHECK(mcpm_workloads_info("nobody", &info, &missing) == MCPM_STATUS_NOT_FOUND);
    mcpm_error_free(missing);
}

static void it_is_stopped_and_removed(mcpm_workload *workload, const char *name)
{
    struct outcome stopped = OUTCOME, ended = OUTCOME;
    DONE(mcpm_workload_wait_async(workload, on_end, &ended, NULL, &error));
    DONE(mcpm_workload_stop_async(workload, 5, on_end, &stopped, &error));
    await_calls(&stopped, 1);
    await_calls(&ended, 1);
    CHECK(stopped.error == NULL && ended.error == NULL);
    DONE(mcpm_workload_wait(workload, &error));
    mcpm_phase phase = MCPM_PHASE_RUNNING;
    DONE(mcpm_workload_status(workload, &phase, NULL, &error));
    CHECK(phase == MCPM_PHASE_STOPPED);
    mcpm_connection *connection = NULL;
    mcpm_error *gone = NULL;
    CHECK(mcpm_workload_connect(workload, NULL, &connection, &gone) == MCPM_STATUS_UPSTREAM && connection == NULL);
    mcpm_error_free(gone);
    mcpm_workload_free(workload);
    pthread_mutex_lock(&heard.lock);
    while (!heard.freed) {
        pthread_cond_wait(&heard.changed, &heard.lock);
    }
    pthread_mutex_unlock(&heard.lock);
    CHECK(heard.freed == 1 && heard.count >= 3);
    CHECK(heard.kinds[0] == MCPM_EVENT_KIND_STARTING && heard.kinds[1] == MCPM_EVENT_KIND_READY);
    CHECK(heard.kinds[heard.count - 1] == MCPM_EVENT_KIND_ENDED);
    DONE(mcpm_workloads_stop(name, 5, &error));
    DONE(mcpm_workloads_remove(name, 5, &error));
    mcpm_record_list *list = NULL;
    DONE(mcpm_workloads_list(&list, &error));
    CHECK(mcpm_record_list_length(list) == 0);
    mcpm_record_list_free(list);
}

static void a_start_is_cancelled(const char *image, const char *name)
{
    mcpm_workload_builder *options = builder(image, name);
    struct outcome started = OUTCOME;
    mcpm_operation *operation = NULL;
    DONE(mcpm_workload_start_async(options, on_started, &started, &operation, &error));
    mcpm_workload_builder_free(options);
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    await_calls(&started, 1);
    CHECK(started.workload == NULL && mcpm_error_status(started.error) == MCPM_STATUS_INTERRUPTED);
    mcpm_error_free(started.error);
}

static void errors_tell_their_parts(void)
{
    mcpm_workload_builder *options = mcpm_workload_builder_new();
    mcpm_workload_builder_server(options, "http://127.0.0.1:1/mcp");
    mcpm_workload_builder_remote_auth_bearer_token(options, "two\nlines");
    struct outcome started = OUTCOME;
    DONE(mcpm_workload_start_async(options, on_started, &started, NULL, &error));
    await_calls(&started, 1);
    CHECK(started.workload == NULL && started.error != NULL);
    CHECK(mcpm_error_status(started.error) == MCPM_STATUS_INVALID_OPTION);
    const char *option = mcpm_error_context(started.error, "option");
    CHECK(is(option, "remote_auth_bearer_token"));
    CHECK(mcpm_error_context(started.error, "colour") == NULL);
    mcpm_error_free(started.error);
    REFUSED(mcpm_workload_start_async(options, NULL, NULL, NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_workload_builder_free(options);
}

static void shut_down_at_exit(void)
{
    mcpm_error *failure = NULL;
    if (mcpm_shutdown(&failure) != MCPM_STATUS_OK) {
        fprintf(stderr, "%s\n", mcpm_error_message(failure));
        _exit(1);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 5);
    char name[128], cancelled[128];
    snprintf(name, sizeof name, "%s-embedded", arguments[3]);
    snprintf(cancelled, sizeof cancelled, "%s-cancelled", arguments[3]);
    mcpm_workload_builder *options = builder(arguments[1], name);
    mcpm_workload_builder_on_event(options, on_event, &heard, free_events);
    struct outcome started = OUTCOME;
    DONE(mcpm_workload_start_async(options, on_started, &started, NULL, &error));
    mcpm_workload_builder_free(options);
    await_calls(&started, 1);
    CHECK(started.error == NULL && is(mcpm_workload_url(started.workload), ""));

    the_server_is_used(started.workload);
    its_record_is_read(name, arguments[4]);
    it_is_stopped_and_removed(started.workload, name);
    a_start_is_cancelled(arguments[2], cancelled);
    errors_tell_their_parts();
    DONE(mcpm_shutdown(&error));
    printf("%s\n", mcpm_version());

    /* What still runs at the exit is stopped by a handler, although this thread has used the library. */
    CHECK(atexit(shut_down_at_exit) == 0);
    char left[128];
    snprintf(left, sizeof left, "%s-left", arguments[3]);
    options = builder(arguments[1], left);
    /* Not freed, but not lost. */
    static mcpm_workload *running = NULL;
    DONE(mcpm_workload_start(options, &running, &error));
    mcpm_workload_builder_free(options);
    mcpm_connection *connection = NULL;
    DONE(mcpm_workload_connect(running, NULL, &connection, &error));
    mcpm_connection_free(connection);
    return 0;
}
