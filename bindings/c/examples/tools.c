/* Runs a server without a port, lists its tools and calls one: tools SERVER TOOL [OPTION VALUE]... Ctrl-C cancels. */

#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mcpm.h"

/* The result that the callback of an operation has received. */
struct outcome {
    mcpm_workload *workload;
    char *message;
    mcpm_error *error;
};

/* Wakes the main thread: 'e' when an operation has ended, 'c' when the user cancels. A signal handler may write to a
 * pipe, but must not call functions of mcpm. */
static int wakeups[2];

static void wake(char why)
{
    int saved = errno;
    while (write(wakeups[1], &why, 1) < 0 && errno == EINTR) {
    }
    errno = saved;
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    wake('c');
}

/* Waits for the end of an operation, and cancels it when the user wants that. */
static void await_end(mcpm_operation *operation)
{
    char why = 0;
    while (why != 'e') {
        if (read(wakeups[0], &why, 1) == 1 && why == 'c') {
            mcpm_operation_cancel(operation);
        }
    }
    mcpm_operation_free(operation);
}

/* The callbacks run on threads of mcpm, where functions that block return MCPM_STATUS_NOT_HERE. */

static void on_started(void *user_data, mcpm_workload *workload, mcpm_error *error)
{
    struct outcome *started = (struct outcome *)user_data;
    started->workload = workload;
    started->error = error;
    wake('e');
}

static void on_message(void *user_data, char *message, mcpm_error *error)
{
    struct outcome *received = (struct outcome *)user_data;
    received->message = message;
    received->error = error;
    wake('e');
}

static void on_event(void *user_data, mcpm_event_kind kind, const mcpm_record *event)
{
    (void)user_data;
    if (kind == MCPM_EVENT_KIND_PULLING) {
        fprintf(stderr, "pulling %s\n", mcpm_record_get(event, "image"));
    } else if (kind == MCPM_EVENT_KIND_STARTING) {
        fprintf(stderr, "starting %s\n", mcpm_record_get(event, "name"));
    } else if (kind == MCPM_EVENT_KIND_WARNING) {
        fprintf(stderr, "warning: %s\n", mcpm_record_get(event, "message"));
    }
}

/* Prompts for a value that only the user can supply. A program with a terminal turns its echo off here. */
static void ask_secret(void *user_data, const char *question, mcpm_prompt_answer *answer)
{
    char line[256];
    (void)user_data;
    fprintf(stderr, "%s: ", question);
    if (fgets(line, sizeof line, stdin) == NULL) {
        mcpm_prompt_answer_cancel(answer);
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    mcpm_prompt_answer_text(answer, line);
}

static void show_login(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    (void)user_data;
    (void)answer;
    fprintf(stderr, "log in to %s: %s\n", mcpm_login_prompt_server(login), mcpm_login_prompt_url(login));
}

/* Prints an error, frees it, and returns the exit code of the program. */
static int failed(mcpm_error *error)
{
    int code = mcpm_error_status(error) == MCPM_STATUS_INTERRUPTED ? 130 : 1;
    const char *hint = mcpm_error_hint(error);
    fprintf(stderr, "error: %s\n", mcpm_error_message(error));
    if (hint != NULL) {
        fprintf(stderr, "what to do: %s\n", hint);
    }
    mcpm_error_free(error);
    return code;
}

/* Whether a message has this id. A program with a JSON parser reads the member `id` of the message instead. */
static int answers(const char *message, int id)
{
    for (const char *at = strstr(message, "\"id\""); at != NULL; at = strstr(at + 1, "\"id\"")) {
        int found = 0;
        if (sscanf(at, "\"id\" : %d", &found) == 1 && found == id) {
            return 1;
        }
    }
    return 0;
}

/* Sends a request and returns the response, which must be freed; null after an error or the end of the connection. */
static char *request(mcpm_connection *connection, int id, const char *method, const char *params, mcpm_error **error)
{
    char message[512];
    snprintf(message, sizeof message, "{\"jsonrpc\": \"2.0\", \"id\": %d, \"method\": \"%s\", \"params\": %s}", id,
             method, params);
    if (mcpm_connection_send(connection, message, error) != MCPM_STATUS_OK) {
        return NULL;
    }
    for (;;) {
        struct outcome received = {NULL, NULL, NULL};
        mcpm_operation *operation = NULL;
        if (mcpm_connection_receive_async(connection, on_message, &received, &operation, error) != MCPM_STATUS_OK) {
            return NULL;
        }
        await_end(operation);
        if (received.message == NULL || answers(received.message, id)) {
            *error = received.error;
            return received.message;
        }
        /* A notification, or a request of the server. */
        mcpm_string_free(received.message);
    }
}

/* Sends a request and prints the response. Returns whether there is one. */
static int print_response(mcpm_connection *connection, int id, const char *method, const char *params,
                          mcpm_error **error)
{
    char *response = request(connection, id, method, params, error);
    if (response != NULL) {
        puts(response);
    }
    mcpm_string_free(response);
    return response != NULL;
}

/* Lists the tools and calls one. */
static int use(const mcpm_workload *workload, const char *tool)
{
    mcpm_error *error = NULL;
    mcpm_connection *connection = NULL;
    char call[256];
    snprintf(call, sizeof call, "{\"name\": \"%.128s\", \"arguments\": {}}", tool);
    int done = mcpm_workload_connect(workload, NULL, &connection, &error) == MCPM_STATUS_OK &&
               print_response(connection, 1, "initialize",
                              "{\"protocolVersion\": \"2025-06-18\", \"capabilities\": {},"
                              " \"clientInfo\": {\"name\": \"tools\", \"version\": \"1\"}}",
                              &error) &&
               mcpm_connection_send(connection, "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}",
                                    &error) == MCPM_STATUS_OK &&
               print_response(connection, 2, "tools/list", "{}", &error) &&
               print_response(connection, 3, "tools/call", call, &error);
    mcpm_connection_free(connection);
    if (error != NULL) {
        return failed(error);
    }
    if (!done) {
        fputs("error: the server has ended the connection\n", stderr);
    }
    return done ? 0 : 1;
}

/* Stops the workload, and removes its container and its record. */
static int end(mcpm_workload *workload)
{
    mcpm_error *error = NULL;
    mcpm_status status = mcpm_workload_stop(workload, 10, &error);
    if (status == MCPM_STATUS_OK) {
        status = mcpm_workloads_remove(mcpm_workload_name(workload), 10, &error);
    }
    mcpm_workload_free(workload);
    return status == MCPM_STATUS_OK ? 0 : failed(error);
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fputs("usage: tools SERVER TOOL [OPTION VALUE]...\n", stderr);
        return 2;
    }
    struct sigaction on_signal;
    memset(&on_signal, 0, sizeof on_signal);
    on_signal.sa_handler = on_interrupt;
    on_signal.sa_flags = SA_RESTART;
    if (pipe(wakeups) != 0 || sigaction(SIGINT, &on_signal, NULL) != 0) {
        perror("tools");
        return 1;
    }

    mcpm_workload_builder *builder = mcpm_workload_builder_new();
    mcpm_workload_builder_server(builder, arguments[1]);
    mcpm_workload_builder_in_process_only(builder, true);
    mcpm_workload_builder_on_event(builder, on_event, NULL, NULL);
    for (int place = 3; place + 1 < count; place += 2) {
        mcpm_workload_builder_set(builder, arguments[place], arguments[place + 1]);
    }
    mcpm_user_prompt *prompt = mcpm_user_prompt_new(NULL, NULL);
    mcpm_user_prompt_ask_secret(prompt, ask_secret);
    mcpm_user_prompt_show_login(prompt, show_login);
    mcpm_workload_builder_user_prompt(builder, prompt);
    mcpm_user_prompt_free(prompt);

    /* Not `&started.error`: the call sets its error when it returns, maybe after the callback. */
    struct outcome started = {NULL, NULL, NULL};
    mcpm_operation *operation = NULL;
    mcpm_error *error = NULL;
    mcpm_status status = mcpm_workload_start_async(builder, on_started, &started, &operation, &error);
    mcpm_workload_builder_free(builder);
    if (status != MCPM_STATUS_OK) {
        return failed(error);
    }
    await_end(operation);

    int code = 0;
    if (started.workload == NULL) {
        code = failed(started.error);
    } else {
        code = use(started.workload, arguments[2]);
        int ended = end(started.workload);
        code = code != 0 ? code : ended;
    }
    status = mcpm_shutdown(&error);
    return status == MCPM_STATUS_OK ? code : failed(error);
}
