/* Runs the case in a file: case FILE. tests/cases.rs describes the lines. */

#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "../bindings/browser.h"

#define EVENTS 64

static const char *file;
static int line_number;

static mcpm_workload_builder *workload_options;
static mcpm_proxy_builder *proxy_options;
static mcpm_workload *workload;
static mcpm_proxy *proxy;
static mcpm_connection *connection;
static mcpm_explanation *explanation;
static char refusal[64];
static int next_id;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char events[EVENTS][32];
static int events_heard, events_read, prompted;
static const char *prompt = "none";

/* Ends the program unless a condition of the case holds. */
static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", file, line_number, what);
        exit(1);
    }
}

/* Checks a call: without `kind`, that it has succeeded; otherwise that it has failed with this kind, and that its message
 * contains this text. */
static void expect_status(mcpm_status status, mcpm_error **failure, const char *kind, const char *text)
{
    static const struct {
        const char *kind;
        mcpm_status status;
    } known[] = {
        {"invalid_option", MCPM_STATUS_INVALID_OPTION}, {"not_found", MCPM_STATUS_NOT_FOUND},
        {"name_taken", MCPM_STATUS_NAME_TAKEN},         {"image_unavailable", MCPM_STATUS_IMAGE_UNAVAILABLE},
        {"start_failed", MCPM_STATUS_START_FAILED},     {"upstream", MCPM_STATUS_UPSTREAM},
        {"interrupted", MCPM_STATUS_INTERRUPTED},       {"login_required", MCPM_STATUS_LOGIN_REQUIRED},
        {"registry", MCPM_STATUS_REGISTRY},
    };
    mcpm_status wanted = MCPM_STATUS_OK;
    for (size_t at = 0; kind != NULL && at < sizeof known / sizeof *known; at++) {
        if (strcmp(known[at].kind, kind) == 0) {
            wanted = known[at].status;
        }
    }
    expect(kind == NULL || wanted != MCPM_STATUS_OK, "an unknown kind of error");
    mcpm_error *error = *failure;
    *failure = NULL;
    if (status != wanted || (kind != NULL) != (error != NULL) || (text != NULL && strstr(mcpm_error_message(error), text) == NULL)) {
        fprintf(stderr, "%d: %s\n", (int)status, error == NULL ? "no error" : mcpm_error_message(error));
        expect(0, "another outcome was expected");
    }
    mcpm_error_free(error);
}

static void on_event(void *user_data, mcpm_event_kind kind, const mcpm_record *event)
{
    (void)user_data;
    (void)kind;
    pthread_mutex_lock(&lock);
    if (events_heard < EVENTS) {
        snprintf(events[events_heard++], sizeof *events, "%s", mcpm_record_get(event, "event"));
    }
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits for an event of a kind. */
static void await_event(const char *kind)
{
    pthread_mutex_lock(&lock);
    do {
        while (events_read == events_heard) {
            pthread_cond_wait(&changed, &lock);
        }
    } while (strcmp(events[events_read++], kind) != 0);
    pthread_mutex_unlock(&lock);
}

static void show_login(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    (void)user_data;
    if (strcmp(prompt, "cancel") == 0) {
        mcpm_prompt_answer_cancel(answer);
        return;
    }
    prompted++;
    follow_redirect(mcpm_login_prompt_url(login));
}

static void approve(void *user_data, const char *question, mcpm_prompt_answer *answer)
{
    (void)user_data;
    (void)question;
    prompted++;
    mcpm_prompt_answer_approval(answer, strcmp(prompt, "approve") == 0);
}

/* Returns the prompt for a start; null if there is no user. */
static mcpm_user_prompt *new_prompt(void)
{
    if (strcmp(prompt, "none") == 0) {
        return NULL;
    }
    mcpm_user_prompt *made = mcpm_user_prompt_new(NULL, NULL);
    mcpm_user_prompt_show_login(made, show_login);
    mcpm_user_prompt_approve(made, approve);
    return made;
}

static void set_option(const char *name, const char *value)
{
    int is_proxy = strncmp(name, "target_", 7) == 0 || strncmp(name, "server_", 7) == 0 || proxy_options != NULL;
    char flag[64];
    snprintf(flag, sizeof flag, "%s", name);
    for (char *at = flag; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    if (is_proxy) {
        proxy_options = proxy_options == NULL ? mcpm_proxy_builder_new() : proxy_options;
        mcpm_proxy_builder_set(proxy_options, flag, value);
        return;
    }
    workload_options = workload_options == NULL ? mcpm_workload_builder_new() : workload_options;
    if (strcmp(name, "in_process_only") == 0) {
        mcpm_workload_builder_in_process_only(workload_options, strcmp(value, "true") == 0);
    } else {
        mcpm_workload_builder_set(workload_options, flag, value);
    }
}

/* Starts a workload with the options, or starts the workload with this name again. */
static void start_workload(const char *recorded, const char *kind, const char *text)
{
    mcpm_workload_builder *options = workload_options == NULL ? mcpm_workload_builder_new() : workload_options;
    workload_options = NULL;
    mcpm_workload_builder_on_event(options, on_event, NULL, NULL);
    mcpm_user_prompt *asks = new_prompt();
    if (asks != NULL) {
        mcpm_workload_builder_user_prompt(options, asks);
    }
    mcpm_workload *started = NULL;
    mcpm_error *error = NULL;
    mcpm_status status = recorded == NULL ? mcpm_workload_start(options, &started, &error)
                                          : mcpm_workloads_start(recorded, options, &started, &error);
    expect_status(status, &error, kind, text);
    mcpm_user_prompt_free(asks);
    mcpm_workload_builder_free(options);
    if (started != NULL) {
        mcpm_workload_free(workload);
        workload = started;
    }
}

static void start_proxy(const char *kind, const char *text)
{
    mcpm_user_prompt *asks = new_prompt();
    if (asks != NULL) {
        mcpm_proxy_builder_user_prompt(proxy_options, asks);
    }
    mcpm_proxy *started = NULL;
    mcpm_error *error = NULL;
    expect_status(mcpm_proxy_start(proxy_options, &started, &error), &error, kind, text);
    mcpm_user_prompt_free(asks);
    mcpm_proxy_builder_free(proxy_options);
    proxy_options = NULL;
    if (started != NULL) {
        proxy = started;
    }
}

static int cancelled;

static void on_started(void *user_data, mcpm_workload *started, mcpm_error *error)
{
    (void)user_data;
    pthread_mutex_lock(&lock);
    expect_status(mcpm_error_status(error), &error, "interrupted", NULL);
    expect(started == NULL, "the start was not cancelled");
    cancelled = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void start_and_cancel(void)
{
    mcpm_operation *operation = NULL;
    mcpm_error *error = NULL;
    mcpm_workload_builder_on_event(workload_options, on_event, NULL, NULL);
    mcpm_status status = mcpm_workload_start_async(workload_options, on_started, NULL, &operation, &error);
    expect_status(status, &error, NULL, NULL);
    mcpm_workload_builder_free(workload_options);
    workload_options = NULL;
    await_event("starting");
    mcpm_operation_cancel(operation);
    mcpm_operation_free(operation);
    pthread_mutex_lock(&lock);
    while (!cancelled) {
        pthread_cond_wait(&changed, &lock);
    }
    events_heard = events_read = 0;
    pthread_mutex_unlock(&lock);
}

/* Sends a request and returns the response, which must be freed. */
static char *exchange(const char *method, const char *params)
{
    char message[1024], *response = NULL;
    int id = ++next_id;
    snprintf(message, sizeof message, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}", id, method,
             params);
    mcpm_error *error = NULL;
    expect_status(mcpm_connection_send(connection, message, &error), &error, NULL, NULL);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "\"id\":%d", id);
    for (;;) {
        expect_status(mcpm_connection_receive(connection, &response, &error), &error, NULL, NULL);
        expect(response != NULL, "the connection has ended");
        if (strstr(response, wanted) != NULL) {
            return response;
        }
        mcpm_string_free(response);
    }
}

/* Connects as the caller with a token, which may be null. */
static void connect_as(const char *token, const char *kind, const char *text)
{
    mcpm_error *error = NULL;
    mcpm_connection_free(connection);
    connection = NULL;
    mcpm_status status = workload != NULL ? mcpm_workload_connect(workload, token, &connection, &error)
                                          : mcpm_proxy_connect(proxy, token, NULL, &connection, &error);
    expect_status(status, &error, kind, text);
}

/* Sends `initialize`, and checks that the response contains a text. */
static void initialize(const char *expected)
{
    char *response = exchange("initialize", "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
                                            "\"clientInfo\":{\"name\":\"case\",\"version\":\"1\"}}");
    expect(strstr(response, expected) != NULL, response);
    mcpm_string_free(response);
}

static void shake_hands(void)
{
    mcpm_error *error = NULL;
    initialize("\"protocolVersion\"");
    mcpm_status status = mcpm_connection_send(
        connection, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &error);
    expect_status(status, &error, NULL, NULL);
}

static char *call(const char *tool)
{
    char params[256];
    snprintf(params, sizeof params, "{\"name\":\"%s\",\"arguments\":{}}", tool);
    return exchange("tools/call", params);
}

static void expect_denial(const char *tool, const char *reason)
{
    char *response = call(tool);
    expect(strstr(response, reason) != NULL, "another reason was expected");
    const char *id = strstr(response, "\"refusal\":\"");
    expect(id != NULL && sscanf(id, "\"refusal\":\"%63[^\"]", refusal) == 1, "the denial has no id");
    mcpm_string_free(response);
    mcpm_error *error = NULL;
    mcpm_status status = workload != NULL ? mcpm_explain(refusal, &explanation, &error)
                                          : mcpm_proxy_explain(proxy, refusal, &explanation, &error);
    expect_status(status, &error, NULL, NULL);
}

static const char *explained(const char *field)
{
    return strcmp(field, "reason") == 0   ? mcpm_explanation_reason(explanation)
           : strcmp(field, "layer") == 0  ? mcpm_explanation_layer(explanation)
           : strcmp(field, "server") == 0 ? mcpm_explanation_server(explanation)
                                          : "no such field";
}

static void expect_listed(const char *name, const char *status)
{
    mcpm_record_list *list = NULL;
    mcpm_error *error = NULL;
    expect_status(mcpm_workloads_list(&list, &error), &error, NULL, NULL);
    const char *found = "missing";
    for (size_t at = 0; at < mcpm_record_list_length(list); at++) {
        const mcpm_record *record = mcpm_record_list_get(list, at);
        if (strcmp(mcpm_record_get(record, "name"), name) == 0) {
            found = mcpm_record_get(record, "status");
        }
    }
    expect(strcmp(found, status) == 0, found);
    mcpm_record_list_free(list);
}

static void write_file(const char *path, const char *text)
{
    FILE *written = fopen(path, "w");
    expect(written != NULL && fputs(text, written) >= 0 && fclose(written) == 0, "the file cannot be written");
}

/* Accepts the ignore files of a folder, and checks that only the file with this name has changed, or none. */
static void accept_ignore_files(const char *folder, const char *name)
{
    mcpm_record_list *changed = NULL;
    mcpm_error *error = NULL;
    expect_status(mcpm_workloads_accept_ignore_files(folder, &changed, &error), &error, NULL, NULL);
    size_t count = strcmp(name, "none") == 0 ? 0 : 1;
    expect(mcpm_record_list_length(changed) == count, "another number of files has changed");
    if (count == 1) {
        const char *path = mcpm_record_get(mcpm_record_list_get(changed, 0), "path");
        expect(path != NULL && strcmp(strrchr(path, '/') + 1, name) == 0, "another file has changed");
    }
    mcpm_record_list_free(changed);
}

static const char *phase(void)
{
    static const char *const names[] = {"starting", "running", "restarting", "stopping", "stopped", "failed"};
    mcpm_phase now = MCPM_PHASE_FAILED;
    mcpm_error *error = NULL;
    mcpm_status status = workload != NULL ? mcpm_workload_status(workload, &now, NULL, &error)
                                          : mcpm_proxy_status(proxy, &now, &error);
    expect_status(status, &error, NULL, NULL);
    return names[now];
}

static void stop(void)
{
    mcpm_error *error = NULL;
    mcpm_status status = workload != NULL ? mcpm_workload_stop(workload, 5, &error) : mcpm_proxy_stop(proxy, &error);
    expect_status(status, &error, NULL, NULL);
    mcpm_connection_free(connection);
    connection = NULL;
}

/* Removes and returns the next word of a text. */
static char *word(char **text)
{
    return strtok_r(NULL, " ", text);
}

/* If a text begins with `fails`, removes that word, and splits the rest into the kind of the error and a text of its
 * message. */
static int fails(char **text, const char **kind, const char **message)
{
    *kind = *message = NULL;
    if (strncmp(*text, "fails ", 6) != 0) {
        return 0;
    }
    *text += 6;
    *kind = word(text);
    *message = **text == '\0' ? NULL : *text;
    return 1;
}

/* Executes a line, which consists of a verb and the rest. */
static void carry_out(const char *verb, char *rest)
{
    const char *kind, *message;
    mcpm_error *error = NULL;
    if (strcmp(verb, "option") == 0) {
        const char *name = word(&rest);
        set_option(name, rest);
    } else if (strcmp(verb, "prompt") == 0) {
        static char chosen[16];
        snprintf(chosen, sizeof chosen, "%s", rest);
        prompt = chosen;
        prompted = 0;
    } else if (strcmp(verb, "start") == 0) {
        int is_workload = strcmp(word(&rest), "workload") == 0;
        fails(&rest, &kind, &message);
        if (is_workload) {
            start_workload(NULL, kind, message);
        } else {
            start_proxy(kind, message);
        }
    } else if (strcmp(verb, "start-recorded") == 0) {
        const char *name = word(&rest);
        fails(&rest, &kind, &message);
        start_workload(name, kind, message);
    } else if (strcmp(verb, "start-and-cancel") == 0) {
        start_and_cancel();
    } else if (strcmp(verb, "event") == 0) {
        await_event(rest);
    } else if (strcmp(verb, "phase") == 0) {
        expect(strcmp(phase(), rest) == 0, phase());
    } else if (strcmp(verb, "url") == 0) {
        expect((*mcpm_workload_url(workload) != '\0') == (strcmp(rest, "present") == 0), "another URL was expected");
    } else if (strcmp(verb, "connect") == 0) {
        fails(&rest, &kind, &message);
        connect_as(NULL, kind, message);
        if (kind == NULL) {
            shake_hands();
        }
    } else if (strcmp(verb, "connect-with") == 0) {
        connect_as(rest, NULL, NULL);
        shake_hands();
    } else if (strcmp(verb, "connect-denied") == 0) {
        char reason[64];
        snprintf(reason, sizeof reason, "\"reason\":\"%s\"", rest);
        connect_as(NULL, NULL, NULL);
        initialize(reason);
    } else if (strcmp(verb, "tool") == 0) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", word(&rest));
        char *response = exchange("tools/list", "{}");
        expect((strstr(response, wanted) != NULL) == (strcmp(rest, "listed") == 0), "other tools were expected");
        mcpm_string_free(response);
    } else if (strcmp(verb, "call") == 0) {
        char *response = call(word(&rest));
        expect(strstr(response, "\"result\"") != NULL && strstr(response, rest) != NULL, response);
        mcpm_string_free(response);
    } else if (strcmp(verb, "denied") == 0) {
        const char *tool = word(&rest);
        expect_denial(tool, rest);
    } else if (strcmp(verb, "explained") == 0) {
        const char *found = explained(word(&rest));
        expect(found != NULL && strcmp(found, rest) == 0, found);
    } else if (strcmp(verb, "disconnect") == 0) {
        expect_status(mcpm_connection_close(connection, &error), &error, NULL, NULL);
    } else if (strcmp(verb, "check") == 0) {
        fails(&rest, &kind, &message);
        mcpm_status status = mcpm_proxy_check(proxy, NULL, &error);
        expect_status(status, &error, kind, message);
    } else if (strcmp(verb, "prompted") == 0) {
        expect(prompted == atoi(rest), "the user was prompted another number of times");
    } else if (strcmp(verb, "listed") == 0) {
        const char *name = word(&rest);
        expect_listed(name, rest);
    } else if (strcmp(verb, "stop") == 0) {
        stop();
    } else if (strcmp(verb, "remove") == 0) {
        const char *name = word(&rest);
        fails(&rest, &kind, &message);
        mcpm_status status = mcpm_workloads_remove(name, 5, &error);
        expect_status(status, &error, kind, message);
    } else if (strcmp(verb, "write") == 0) {
        const char *path = word(&rest);
        write_file(path, rest);
    } else if (strcmp(verb, "accept-ignore-files") == 0) {
        const char *folder = word(&rest);
        if (fails(&rest, &kind, &message)) {
            expect_status(mcpm_workloads_accept_ignore_files(folder, NULL, &error), &error, kind, message);
        } else {
            accept_ignore_files(folder, rest);
        }
    } else {
        expect(0, "an unknown verb");
    }
}

/* Replaces `$NAME` by environment variables. */
static void expand(const char *line, char *expanded, size_t size)
{
    size_t length = 0;
    while (*line != '\0' && *line != '\n') {
        char name[32];
        int taken = 0;
        if (*line == '$' && sscanf(line + 1, "%31[A-Z]%n", name, &taken) == 1) {
            const char *value = getenv(name);
            expect(value != NULL, name);
            length += (size_t)snprintf(expanded + length, size - length, "%s", value);
            line += taken + 1;
        } else {
            expanded[length++] = *line++;
        }
        expect(length + 1 < size, "the line is too long");
    }
    expanded[length] = '\0';
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    file = arguments[1];
    FILE *lines = fopen(file, "r");
    CHECK(lines != NULL);
    /* A token is longer than a line of a case. */
    char line[512], expanded[4096];
    while (fgets(line, sizeof line, lines) != NULL) {
        line_number++;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        expand(line, expanded, sizeof expanded);
        char *rest = NULL, *verb = strtok_r(expanded, " ", &rest);
        carry_out(verb, rest);
    }
    fclose(lines);
    mcpm_explanation_free(explanation);
    mcpm_connection_free(connection);
    mcpm_workload_free(workload);
    mcpm_proxy_free(proxy);
    mcpm_error *error = NULL;
    expect_status(mcpm_shutdown(&error), &error, NULL, NULL);
    printf("passed\n");
    return 0;
}
