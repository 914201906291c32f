/* Uses the server of an image without a port, with callbacks: embedded IMAGE SILENT-IMAGE PREFIX FILE. Names of
 * workloads begin with the prefix; the server of the second image never responds; options are exported to the file. */

#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <unistd.h>

#include "outcome.h"

/* Returns whether a value is present and equals this text. */
static int is(const char *value, const char *text)
{
    return value != NULL && strcmp(value, text) == 0;
}

static mcpm_error *error = NULL;

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

/* Sends a message and returns the response, which must be freed. */
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
    /* The filter applies to this connection, too. */
    answer = exchange(connection, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\","
                                  "\"params\":{\"name\":\"test_image_content\",\"arguments\":{}}}");
    CHECK(strstr(answer, "tools.not_listed") != NULL);
    mcpm_string_free(answer);

    struct outcome received = OUTCOME;
    mcpm_operation *operation = NULL;
    DONE(mcpm_connection_receive_async(connection, on_text, &received, &operation, &error));
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    await_calls(&received, 1);
    CHECK(mcpm_error_status(received.error) == MCPM_STATUS_INTERRUPTED);
    mcpm_error_free(received.error);
    DONE(mcpm_connection_receive_async(connection, on_text, &received, NULL, &error));
    struct outcome sent = OUTCOME;
    DONE(mcpm_connection_send_async(connection, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}", on_end, &sent,
                                    &error));
    await_calls(&sent, 1);
    CHECK(sent.error == NULL);
    await_calls(&received, 2);
    CHECK(received.error == NULL && strstr((char *)received.result, "\"id\":4") != NULL);
    mcpm_string_free((char *)received.result);

    DONE(mcpm_connection_close(connection, &error));
    answer = NULL;
    DONE(mcpm_connection_receive(connection, &answer, &error));
    CHECK(answer == NULL);
    mcpm_error *closed = NULL;
    CHECK(mcpm_connection_send(connection, "{}", &closed) == MCPM_STATUS_UPSTREAM);
    mcpm_error_free(closed);
    mcpm_connection_free(connection);
}

/* A connection is closed with a callback, too. */
static void another_connection_is_closed(mcpm_workload *workload)
{
    mcpm_connection *connection = NULL;
    DONE(mcpm_workload_connect(workload, NULL, &connection, &error));
    struct outcome closed = OUTCOME;
    DONE(mcpm_connection_close_async(connection, on_end, &closed, &error));
    CHECK(await_result(&closed) == NULL);
    char *message = NULL;
    DONE(mcpm_connection_receive(connection, &message, &error));
    CHECK(message == NULL);
    mcpm_connection_free(connection);
}

/* The output of a server, and the end of reading it. */
struct output {
    struct outcome end;
    size_t bytes;
    int parts;
    /* The number of parts to read. */
    int wanted;
};

static bool count_output(void *user_data, mcpm_log_stream stream, const uint8_t *bytes, size_t length)
{
    struct output *output = (struct output *)user_data;
    CHECK((stream == MCPM_LOG_STREAM_STDOUT || stream == MCPM_LOG_STREAM_STDERR) && bytes != NULL);
    output->bytes += length;
    output->parts += 1;
    return output->parts < output->wanted;
}

static void on_output_end(void *user_data, mcpm_error *failure)
{
    on_end(&((struct output *)user_data)->end, failure);
}

/* The image must contain a server that writes something when it starts. */
static void its_output_is_read(const char *image, const char *name)
{
    mcpm_workload_builder *options = builder(image, name);
    mcpm_workload *workload = NULL;
    DONE(mcpm_workload_start(options, &workload, &error));
    mcpm_workload_builder_free(options);
    struct output all = {OUTCOME, 0, 0, 1000}, same = {OUTCOME, 0, 0, 1000}, first = {OUTCOME, 0, 0, 1};
    /* The callback ends the reading, although the server is running. */
    DONE(mcpm_workloads_logs_async(name, true, -1, count_output, on_output_end, &first, NULL, &error));
    CHECK(await_result(&first.end) == NULL && first.parts == 1);
    DONE(mcpm_workloads_logs(name, false, -1, count_output, &all, &error));
    CHECK(all.bytes >= first.bytes && first.bytes > 0);
    DONE(mcpm_workloads_logs_async(name, false, -1, count_output, on_output_end, &same, NULL, &error));
    CHECK(await_result(&same.end) == NULL && same.bytes >= all.bytes);
    /* The program cancels the reading. */
    struct output followed = {OUTCOME, 0, 0, 1000};
    mcpm_operation *operation = NULL;
    DONE(mcpm_workloads_logs_async(name, true, 0, count_output, on_output_end, &followed, &operation, &error));
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    await_failure(&followed.end, MCPM_STATUS_INTERRUPTED);
    DONE(mcpm_workload_stop(workload, 0, &error));
    mcpm_workload_free(workload);
    DONE(mcpm_workloads_remove(name, 0, &error));
}

static void check_list(mcpm_record_list *list, const char *name)
{
    CHECK(mcpm_record_list_length(list) == 1 && mcpm_record_list_get(list, 1) == NULL);
    const mcpm_record *listed = mcpm_record_list_get(list, 0);
    CHECK(is(mcpm_record_get(listed, "name"), name));
    CHECK(is(mcpm_record_get(listed, "status"), "running") && mcpm_record_get(listed, "url") == NULL);
    mcpm_record_list_free(list);
}

static void check_info(mcpm_record *info)
{
    CHECK(is(mcpm_record_get(info, "transport"), "stdio") && mcpm_record_get(info, "colour") == NULL);
    mcpm_record_free(info);
}

static void its_record_is_read(const char *name, const char *file)
{
    mcpm_record_list *list = NULL;
    DONE(mcpm_workloads_list(&list, &error));
    check_list(list, name);
    struct outcome listed = OUTCOME, found = OUTCOME, unknown = OUTCOME;
    DONE(mcpm_workloads_list_async(on_record_list, &listed, NULL, &error));
    check_list((mcpm_record_list *)await_result(&listed), name);
    mcpm_record *info = NULL;
    DONE(mcpm_workloads_info(name, &info, &error));
    check_info(info);
    DONE(mcpm_workloads_info_async(name, on_record, &found, NULL, &error));
    check_info((mcpm_record *)await_result(&found));
    DONE(mcpm_workloads_export_to(name, file, &error));
    mcpm_error *missing = NULL;
    CHECK(mcpm_workloads_info("nobody", &info, &missing) == MCPM_STATUS_NOT_FOUND);
    mcpm_error_free(missing);
    DONE(mcpm_workloads_info_async("nobody", on_record, &unknown, NULL, &error));
    await_failure(&unknown, MCPM_STATUS_NOT_FOUND);
}

/* Checks that a record is the status of a stopped workload, and frees it. */
static void check_stopped(mcpm_record *status)
{
    CHECK(is(mcpm_record_get(status, "phase"), "stopped") && is(mcpm_record_get(status, "restarts"), "0"));
    mcpm_record_free(status);
}

static void it_is_stopped(mcpm_workload *workload)
{
    struct outcome stopped = OUTCOME, ended = OUTCOME;
    DONE(mcpm_workload_wait_async(workload, on_record, &ended, NULL, &error));
    DONE(mcpm_workload_stop_async(workload, 5, on_end, &stopped, &error));
    CHECK(await_result(&stopped) == NULL);
    check_stopped((mcpm_record *)await_result(&ended));
    mcpm_record *status = NULL;
    DONE(mcpm_workload_wait(workload, &status, &error));
    check_stopped(status);
    DONE(mcpm_workload_wait(workload, NULL, &error));
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
}

/* The callback receives its events from now on. */
static void its_events_are_heard(mcpm_workload *workload)
{
    heard.count = heard.freed = 0;
    DONE(mcpm_workload_on_event(workload, on_event, &heard, free_events, &error));
}

static void it_is_started_again_and_removed(const char *name)
{
    mcpm_workload *workload = NULL;
    mcpm_workload_builder *options = builder("image", name);
    REFUSED(mcpm_workloads_start(name, options, &workload, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_workload_builder_free(options);
    options = mcpm_workload_builder_new();
    mcpm_workload_builder_in_process_only(options, true);
    struct outcome started = OUTCOME, second = OUTCOME, unknown = OUTCOME;
    DONE(mcpm_workloads_start_async(name, options, on_workload_started, &started, NULL, &error));
    mcpm_workload_builder_free(options);
    workload = (mcpm_workload *)await_result(&started);
    CHECK(is(mcpm_workload_name(workload), name) && is(mcpm_workload_url(workload), ""));
    its_events_are_heard(workload);
    DONE(mcpm_workloads_start_async(name, NULL, on_workload_started, &second, NULL, &error));
    await_failure(&second, MCPM_STATUS_NAME_TAKEN);
    DONE(mcpm_workload_stop(workload, 5, &error));
    mcpm_workload_free(workload);
    pthread_mutex_lock(&heard.lock);
    while (!heard.freed) {
        pthread_cond_wait(&heard.changed, &heard.lock);
    }
    pthread_mutex_unlock(&heard.lock);
    CHECK(heard.count > 0 && heard.kinds[heard.count - 1] == MCPM_EVENT_KIND_ENDED);

    DONE(mcpm_workloads_start(name, NULL, &workload, &error));
    CHECK(strstr(mcpm_workload_url(workload), "http://127.0.0.1:") != NULL);
    /* Another process could stop the workload like this. */
    struct outcome own = OUTCOME, stopped = OUTCOME, removed = OUTCOME;
    DONE(mcpm_workloads_stop_async(name, 5, on_end, &own, &error));
    await_failure(&own, MCPM_STATUS_INVALID_OPTION);
    DONE(mcpm_workload_stop(workload, 5, &error));
    mcpm_workload_free(workload);
    DONE(mcpm_workloads_stop(name, 5, &error));
    DONE(mcpm_workloads_stop_async(name, 5, on_end, &stopped, &error));
    CHECK(await_result(&stopped) == NULL);
    DONE(mcpm_workloads_remove_async(name, 5, on_end, &removed, &error));
    CHECK(await_result(&removed) == NULL);
    mcpm_error *missing = NULL;
    CHECK(mcpm_workloads_remove(name, 5, &missing) == MCPM_STATUS_NOT_FOUND);
    mcpm_error_free(missing);
    DONE(mcpm_workloads_start_async(name, NULL, on_workload_started, &unknown, NULL, &error));
    await_failure(&unknown, MCPM_STATUS_NOT_FOUND);
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
    DONE(mcpm_workload_start_async(options, on_workload_started, &started, &operation, &error));
    mcpm_workload_builder_free(options);
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    await_failure(&started, MCPM_STATUS_INTERRUPTED);
}

static void errors_tell_their_parts(void)
{
    mcpm_workload_builder *options = mcpm_workload_builder_new();
    mcpm_workload_builder_server(options, "http://127.0.0.1:1/mcp");
    mcpm_workload_builder_remote_auth_bearer_token(options, "two\nlines");
    struct outcome started = OUTCOME;
    DONE(mcpm_workload_start_async(options, on_workload_started, &started, NULL, &error));
    await_calls(&started, 1);
    CHECK(started.result == NULL && started.error != NULL);
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
    CHECK(count == 6);
    char name[128], chatty[128], cancelled[128];
    snprintf(name, sizeof name, "%s-embedded", arguments[3]);
    snprintf(chatty, sizeof chatty, "%s-chatty", arguments[3]);
    snprintf(cancelled, sizeof cancelled, "%s-cancelled", arguments[3]);
    mcpm_workload_builder *options = builder(arguments[1], name);
    mcpm_workload_builder_on_event(options, on_event, &heard, free_events);
    struct outcome started = OUTCOME;
    DONE(mcpm_workload_start_async(options, on_workload_started, &started, NULL, &error));
    mcpm_workload_builder_free(options);
    mcpm_workload *workload = (mcpm_workload *)await_result(&started);
    CHECK(is(mcpm_workload_url(workload), ""));

    the_server_is_used(workload);
    another_connection_is_closed(workload);
    its_record_is_read(name, arguments[4]);
    it_is_stopped(workload);
    it_is_started_again_and_removed(name);
    its_output_is_read(arguments[5], chatty);
    a_start_is_cancelled(arguments[2], cancelled);
    errors_tell_their_parts();
    DONE(mcpm_shutdown(&error));
    printf("%s\n", mcpm_version());

    /* A handler stops running workloads at the exit, although this thread has used the library. */
    CHECK(atexit(shut_down_at_exit) == 0);
    char left[128];
    snprintf(left, sizeof left, "%s-left", arguments[3]);
    options = builder(arguments[1], left);
    /* Not freed, but still reachable. */
    static mcpm_workload *running = NULL;
    DONE(mcpm_workload_start(options, &running, &error));
    mcpm_workload_builder_free(options);
    mcpm_connection *connection = NULL;
    DONE(mcpm_workload_connect(running, NULL, &connection, &error));
    mcpm_connection_free(connection);
    return 0;
}
