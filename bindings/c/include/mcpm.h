/**
 * @file mcpm.h
 * The C interface of mcpm: MCP servers as container workloads behind an HTTP proxy.
 *
 * Generated from the Rust sources; do not edit. docs/guides/embedding-c.md shows how to use it.
 *
 * Conventions, which hold for every function:
 *
 * - Strings are UTF-8 and end with a NUL byte. Arguments are copied. The documentation of a returned string says how
 *   long it is valid, or how it is freed.
 * - `MCPM_OWNED` marks results that the program must free once, with the `_free` function of their type
 *   (`mcpm_string_free` for a string). They may also be written through a pointer or passed to a callback. A `_free`
 *   function accepts null. Results without the mark must not be freed.
 * - `MCPM_MUST_USE` marks the functions whose result must not be ignored: functions that return a result to free, and
 *   functions that return a status, except those that only stop or close something.
 * - Only one thread at a time may use a builder, or a prompt while its callbacks are being set. A builder can be used
 *   for one start. All other handles may be used by several threads at a time, until one of them frees the handle.
 * - A setter returns nothing. A builder records the first invalid value (null, not UTF-8, not valid for the option),
 *   and the start reports it. Each call of a setter for a repeatable option adds a value. A setter does nothing for
 *   null in place of the builder.
 * - A function that can fail returns a status, and takes the address of an error pointer as its last argument, which
 *   may be null. On failure, the pointer is set to an error, which the caller frees with `mcpm_error_free`; on success,
 *   it is set to null. An `_async` function sets the pointer when it returns, which may be after it has called its
 *   callback, so the callback must use another variable.
 * - Results are written through pointers, and only on success.
 * - A function that waits blocks its thread. On a thread of mcpm, that is, in a callback, it returns
 *   `MCPM_STATUS_NOT_HERE`. The function with the same name and `_async` returns at once, and calls its callback once,
 *   on a thread of mcpm.
 * - User data is passed to callbacks unchanged. mcpm calls callbacks on several threads, so the data that the pointer
 *   refers to must be thread-safe. A callback must not throw, and must not call `longjmp`.
 * - A panic of the library does not reach C; the call returns `MCPM_STATUS_INTERNAL`.
 */


#ifndef MCPM_H
#define MCPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Marks a result that the caller frees; the compiler does not check this. */
#define MCPM_OWNED

/** @def MCPM_MUST_USE
 * The compiler warns if the result is ignored. */
#if (defined(__cplusplus) && __cplusplus >= 201703L) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define MCPM_MUST_USE [[nodiscard]]
#elif defined(__GNUC__)
#define MCPM_MUST_USE __attribute__((warn_unused_result))
#else
#define MCPM_MUST_USE
#endif

/** @def MCPM_FREED_BY
 * The compiler warns if the result is freed by another function. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define MCPM_FREED_BY(function) __attribute__((malloc(function, 1)))
#else
#define MCPM_FREED_BY(function)
#endif

/**
 * The status of a call. The numbers never change.
 */
typedef enum {
  /**
   * Success.
   */
  MCPM_STATUS_OK = 0,
  /**
   * A pointer was null, a string was not valid UTF-8, or a builder was used before.
   */
  MCPM_STATUS_BAD_ARGUMENT = 1,
  /**
   * An option has an invalid value, or options contradict each other.
   */
  MCPM_STATUS_INVALID_OPTION = 2,
  /**
   * The option, value or operation is known, but is not implemented or not included in this build.
   */
  MCPM_STATUS_UNSUPPORTED = 3,
  /**
   * No workload, group or file with that name exists.
   */
  MCPM_STATUS_NOT_FOUND = 4,
  /**
   * A workload or group with that name exists already.
   */
  MCPM_STATUS_NAME_TAKEN = 5,
  /**
   * The port to listen on is in use.
   */
  MCPM_STATUS_PORT_TAKEN = 6,
  /**
   * No container engine responded, or it denied access.
   */
  MCPM_STATUS_ENGINE_UNAVAILABLE = 7,
  /**
   * The image is not present locally and cannot be pulled.
   */
  MCPM_STATUS_IMAGE_UNAVAILABLE = 8,
  /**
   * The server exited or did not respond before it was ready.
   */
  MCPM_STATUS_START_FAILED = 9,
  /**
   * A file or folder could not be read or written, or a prompt failed.
   */
  MCPM_STATUS_IO = 10,
  /**
   * A stored file is damaged or of an unsupported version.
   */
  MCPM_STATUS_CORRUPT_STATE = 11,
  /**
   * The engine rejected an operation or sent an invalid response.
   */
  MCPM_STATUS_ENGINE = 12,
  /**
   * The MCP server or an identity provider failed.
   */
  MCPM_STATUS_UPSTREAM = 13,
  /**
   * The operation was cancelled by its caller, by the user in a prompt, or by a shutdown.
   */
  MCPM_STATUS_INTERRUPTED = 14,
  /**
   * A defect in mcpm.
   */
  MCPM_STATUS_INTERNAL = 15,
  /**
   * A blocking call was made on a thread that runs asynchronous tasks; call it from another thread.
   */
  MCPM_STATUS_NOT_HERE = 16,
  /**
   * The secret store cannot be opened: a wrong or missing password, no keyring, or a failing program.
   */
  MCPM_STATUS_SECRETS_UNAVAILABLE = 17,
  /**
   * The registry cannot be read, or its entry for a server is not usable.
   */
  MCPM_STATUS_REGISTRY = 18,
  /**
   * The image must be signed, and has no valid signature.
   */
  MCPM_STATUS_IMAGE_UNVERIFIED = 19,
  /**
   * The remote server requires a login, and no user can be asked to log in.
   */
  MCPM_STATUS_LOGIN_REQUIRED = 20,
} mcpm_status;

/**
 * The phase of a workload's or a proxy's life cycle. The numbers never change.
 */
typedef enum {
  /**
   * Starting; not ready yet.
   */
  MCPM_PHASE_STARTING = 0,
  /**
   * Ready for requests.
   */
  MCPM_PHASE_RUNNING = 1,
  /**
   * The server exited and is being restarted.
   */
  MCPM_PHASE_RESTARTING = 2,
  /**
   * Stopping on request.
   */
  MCPM_PHASE_STOPPING = 3,
  /**
   * Stopped on request.
   */
  MCPM_PHASE_STOPPED = 4,
  /**
   * Ended without a request to stop.
   */
  MCPM_PHASE_FAILED = 5,
} mcpm_phase;

/**
 * The kind of an event. The numbers never change.
 */
typedef enum {
  /**
   * An image is being pulled: `image`, `current` and `total` bytes.
   */
  MCPM_EVENT_KIND_PULLING = 0,
  /**
   * A step of a package's image build starts: `package`, `step`, `steps`, `instruction`.
   */
  MCPM_EVENT_KIND_BUILDING = 1,
  /**
   * The image build wrote a line: `line`.
   */
  MCPM_EVENT_KIND_BUILD_OUTPUT = 2,
  /**
   * A warning: `message`.
   */
  MCPM_EVENT_KIND_WARNING = 3,
  /**
   * The container is being started: `name`.
   */
  MCPM_EVENT_KIND_STARTING = 4,
  /**
   * Clients can connect: `name`, `url`.
   */
  MCPM_EVENT_KIND_READY = 5,
  /**
   * The server exited and will be restarted: `reason`, `attempt`, `delay_ms`.
   */
  MCPM_EVENT_KIND_RESTARTING = 6,
  /**
   * One of several processes of the server exited and will be restarted: `process`, `reason`, `attempt`, `delay_ms`.
   */
  MCPM_EVENT_KIND_PROCESS_RESTARTING = 7,
  /**
   * One of several processes of the server is ready: `process`.
   */
  MCPM_EVENT_KIND_PROCESS_READY = 8,
  /**
   * One of several processes of the server exited and is not restarted: `process`, `reason`.
   */
  MCPM_EVENT_KIND_PROCESS_ENDED = 9,
  /**
   * The server responds again.
   */
  MCPM_EVENT_KIND_RECOVERED = 10,
  /**
   * A connection of an isolated server was denied: `host`, `port`, `address`, `rule`, `fix`, `refusal`.
   */
  MCPM_EVENT_KIND_CONNECTION_REFUSED = 11,
  /**
   * The login to the remote server has changed: `state`.
   */
  MCPM_EVENT_KIND_LOGIN_CHANGED = 12,
  /**
   * The workload has ended: `reason`, `exit_code`.
   */
  MCPM_EVENT_KIND_ENDED = 13,
} mcpm_event_kind;

/**
 * A stream of a server's output. The numbers never change.
 */
typedef enum {
  /**
   * Standard output.
   */
  MCPM_LOG_STREAM_STDOUT = 1,
  /**
   * Standard error.
   */
  MCPM_LOG_STREAM_STDERR = 2,
} mcpm_log_stream;

/**
 * A connection to a server from this process, which needs no port.
 *
 * It transports JSON-RPC messages in both directions. Requests pass through all layers of the proxy, as if they had
 * arrived at its port: authentication, tool filters, policies and the audit log apply. The connection ends when the
 * workload or proxy stops, or when the server has lost the session and cannot continue it.
 */
typedef struct mcpm_connection mcpm_connection;

/**
 * An error of a call.
 */
typedef struct mcpm_error mcpm_error;

/**
 * The explanation of a denial. Its strings are valid as long as it exists.
 */
typedef struct mcpm_explanation mcpm_explanation;

/**
 * A login that the user is asked to complete.
 */
typedef struct mcpm_login_prompt mcpm_login_prompt;

/**
 * An operation that has been started and calls back when it ends.
 */
typedef struct mcpm_operation mcpm_operation;

/**
 * The answer of a callback.
 */
typedef struct mcpm_prompt_answer mcpm_prompt_answer;

/**
 * A running proxy in front of an MCP server.
 */
typedef struct mcpm_proxy mcpm_proxy;

/**
 * Named values: an event, the status of a workload, or the description of a recorded workload.
 */
typedef struct mcpm_record mcpm_record;

/**
 * A list of records.
 */
typedef struct mcpm_record_list mcpm_record_list;

/**
 * The callbacks that prompt the user for input that only the user can supply, such as a login to a remote server. All
 * callbacks are optional.
 *
 * The callbacks may block until the user has answered. mcpm calls them on threads of its own, several at a time if it
 * needs several answers, and from any thread: the callbacks and the user data must be thread-safe. They must not
 * throw, call `longjmp`, or call a function of mcpm that blocks, such as one that starts, stops or checks a workload
 * or proxy, or `mcpm_shutdown`; such a call returns `MCPM_STATUS_NOT_HERE`.
 *
 * `question`, `login`, `answer` and the strings of `login` are valid only during the call; copy what must last
 * longer. Strings that are put into `answer` are copied.
 */
typedef struct mcpm_user_prompt mcpm_user_prompt;

/**
 * A started workload: an MCP server in a container, or a remote MCP server, behind its own proxy.
 */
typedef struct mcpm_workload mcpm_workload;

/**
 * Collects the options of a proxy.
 */
typedef struct mcpm_proxy_builder mcpm_proxy_builder;

/**
 * Collects the options of a workload.
 */
typedef struct mcpm_workload_builder mcpm_workload_builder;

/**
 * Receives the end of an operation. `error` is null if it was successful, and must be freed otherwise.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_end)(void *user_data, MCPM_OWNED mcpm_error *error);

/**
 * Receives a message. `message` must be freed with `mcpm_string_free`, and is null after the end of the connection.
 * `error` is null on success, and must be freed otherwise.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_message)(void *user_data, MCPM_OWNED char *message, MCPM_OWNED mcpm_error *error);

/**
 * Frees the user data of callbacks.
 */
typedef void (*mcpm_free_user_data)(void *user_data);

/**
 * Prompts for a text or an approval, and puts the user's reply into `answer`. If `answer` is not set, mcpm assumes
 * that the user cannot be prompted.
 */
typedef void (*mcpm_ask_question)(void *user_data, const char *question, mcpm_prompt_answer *answer);

/**
 * Shows a login to the user, or asks for the URL of its redirect.
 */
typedef void (*mcpm_ask_login)(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer);

/**
 * Receives a started proxy, which must be freed with `mcpm_proxy_free`. If the start has failed, `proxy` is null, and
 * `error` must be freed.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_proxy_started)(void *user_data,
                                      MCPM_OWNED mcpm_proxy *proxy,
                                      MCPM_OWNED mcpm_error *error);

/**
 * Receives the outcome of a check. `remark` is null if there is none, and must be freed with `mcpm_string_free`
 * otherwise. If the check has failed, `remark` is null, and `error` must be freed.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_checked)(void *user_data, MCPM_OWNED char *remark, MCPM_OWNED mcpm_error *error);

/**
 * Receives an event. `event` is valid only during the call. `mcpm_record_get` reads its values; the documentation of
 * the kind lists their names.
 *
 * mcpm calls the callback on threads of its own, for one event of a workload at a time. The callback may block; a
 * receiver that is more than 256 events behind loses the oldest events. It must not call functions of mcpm that block.
 */
typedef void (*mcpm_on_event)(void *user_data, mcpm_event_kind kind, const mcpm_record *event);

/**
 * Receives a started workload, which must be freed with `mcpm_workload_free`. If the start has failed, `workload` is
 * null, and `error` must be freed.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_workload_started)(void *user_data,
                                         MCPM_OWNED mcpm_workload *workload,
                                         MCPM_OWNED mcpm_error *error);

/**
 * Receives a record, which must be freed with `mcpm_record_free`. If the operation has failed, `record` is null, and
 * `error` must be freed.
 *
 * mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
 * functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
 */
typedef void (*mcpm_on_record)(void *user_data, MCPM_OWNED mcpm_record *record, MCPM_OWNED mcpm_error *error);

/**
 * Receives a list of records, which must be freed with `mcpm_record_list_free`. If the operation has failed, `list` is
 * null, and `error` must be freed. mcpm calls it in the same way as `mcpm_on_record`.
 */
typedef void (*mcpm_on_record_list)(void *user_data,
                                    MCPM_OWNED mcpm_record_list *list,
                                    MCPM_OWNED mcpm_error *error);

/**
 * Receives a part of a server's output, which is valid only during the call, and returns whether to continue.
 * `mcpm_workloads_logs` calls it on the calling thread. `mcpm_workloads_logs_async` calls it on threads of mcpm, for
 * one part at a time; there, it must not call functions that block.
 */
typedef bool (*mcpm_on_output)(void *user_data, mcpm_log_stream stream, const uint8_t *bytes, size_t length);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Sends one JSON-RPC message, and blocks while the server cannot receive more. Responses are received with
 * `mcpm_connection_receive`.
 */
MCPM_MUST_USE
mcpm_status mcpm_connection_send(const mcpm_connection *connection,
                                 const char *message,
                                 MCPM_OWNED mcpm_error **error);

/**
 * Sends one JSON-RPC message, and calls `on_end` once the message is sent. Messages are sent in the order of the calls
 * only if each call is made after the previous one has ended. Sending cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_connection_send_async(const mcpm_connection *connection,
                                       const char *message,
                                       mcpm_on_end on_end,
                                       void *user_data,
                                       MCPM_OWNED mcpm_error **error);

/**
 * Waits for the next JSON-RPC message from the server. `message` is set to it, and must be freed with
 * `mcpm_string_free`; it is set to null after the end of the connection.
 */
MCPM_MUST_USE
mcpm_status mcpm_connection_receive(const mcpm_connection *connection,
                                    MCPM_OWNED char **message,
                                    MCPM_OWNED mcpm_error **error);

/**
 * Waits for the next JSON-RPC message from the server, and calls `on_message` with it. If the wait is cancelled, no
 * message is lost.
 */
MCPM_MUST_USE
mcpm_status mcpm_connection_receive_async(const mcpm_connection *connection,
                                          mcpm_on_message on_message,
                                          void *user_data,
                                          MCPM_OWNED mcpm_operation **operation,
                                          MCPM_OWNED mcpm_error **error);

/**
 * Ends a connection, also for threads that wait for a message. mcpm waits up to 2 s for pending responses, which can
 * still be received. The handle must still be freed.
 */
mcpm_status mcpm_connection_close(const mcpm_connection *connection,
                                  MCPM_OWNED mcpm_error **error);

/**
 * Ends a connection as `mcpm_connection_close` does, but returns at once, and calls `on_end` when the connection has
 * ended. Closing cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_connection_close_async(const mcpm_connection *connection,
                                        mcpm_on_end on_end,
                                        void *user_data,
                                        MCPM_OWNED mcpm_error **error);

/**
 * Frees a connection, which closes it; null is allowed.
 */
void mcpm_connection_free(MCPM_OWNED mcpm_connection *connection);

/**
 * Returns the status of an error; `MCPM_STATUS_OK` for a null pointer.
 */
mcpm_status mcpm_error_status(const mcpm_error *error);

/**
 * Returns the error's message in one line, including what to do next; valid as long as the error. Returns null
 * for a null pointer.
 */
const char *mcpm_error_message(const mcpm_error *error);

/**
 * Returns the next step for the user, which the message contains, too; valid as long as the error. Returns null if no
 * next step is known, and for a null pointer.
 */
const char *mcpm_error_hint(const mcpm_error *error);

/**
 * Returns an input of the failed call by its name, such as the file for the name `path`; valid as long as the error.
 * Returns null if the error has no value of this name, and for a null pointer.
 */
const char *mcpm_error_context(const mcpm_error *error,
                               const char *name);

/**
 * Frees a string that is marked `MCPM_OWNED`; null is allowed.
 */
void mcpm_string_free(MCPM_OWNED char *text);

/**
 * Frees an error; null is allowed.
 */
void mcpm_error_free(MCPM_OWNED mcpm_error *error);

/**
 * Explains a reason, such as `tools.not_listed`, or a recorded denial of a workload or of `mcpm proxy`, by its
 * id.
 *
 * The environment variables of the process determine where the records are, as for the command line. On success,
 * `explanation` is set; free it with `mcpm_explanation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_explain(const char *id,
                         MCPM_OWNED mcpm_explanation **explanation,
                         MCPM_OWNED mcpm_error **error);

/**
 * Explains a reason, or a recent denial of a proxy, by its id.
 *
 * On success, `explanation` is set; free it with `mcpm_explanation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_explain(const mcpm_proxy *proxy,
                               const char *id,
                               MCPM_OWNED mcpm_explanation **explanation,
                               MCPM_OWNED mcpm_error **error);

/**
 * Returns the id of the reason. Returns null for a null pointer.
 */
const char *mcpm_explanation_reason(const mcpm_explanation *explanation);

/**
 * Returns the layer that denies for this reason. Returns null for a null pointer.
 */
const char *mcpm_explanation_layer(const mcpm_explanation *explanation);

/**
 * Returns what the reason means. Returns null for a null pointer.
 */
const char *mcpm_explanation_meaning(const mcpm_explanation *explanation);

/**
 * Returns what usually helps. Returns null for a null pointer.
 */
const char *mcpm_explanation_usual_fix(const mcpm_explanation *explanation);

/**
 * Returns the smallest change that would have allowed the request; null if the explained id is not that of a denial.
 */
const char *mcpm_explanation_fix(const mcpm_explanation *explanation);

/**
 * Returns the rule that applied; null if the layer has only one rule, or if the explained id is not that of a denial.
 */
const char *mcpm_explanation_rule(const mcpm_explanation *explanation);

/**
 * Returns the server that the request was for; null if the explained id is not that of a denial.
 */
const char *mcpm_explanation_server(const mcpm_explanation *explanation);

/**
 * Returns when the request was denied (RFC 3339); null if the explained id is not that of a denial.
 */
const char *mcpm_explanation_time(const mcpm_explanation *explanation);

/**
 * Returns an input of the decision, redacted, by its index from 0.
 *
 * Returns false and writes nothing if the index is out of range. `name` and `value` are valid as long as the
 * explanation.
 */
bool mcpm_explanation_input(const mcpm_explanation *explanation,
                            size_t index,
                            const char **name,
                            const char **value);

/**
 * Frees an explanation; null is allowed.
 */
void mcpm_explanation_free(MCPM_OWNED mcpm_explanation *explanation);

/**
 * Cancels an operation, which then ends with `MCPM_STATUS_INTERRUPTED`; everything that it has started is rolled back.
 * Does nothing if the operation has ended. Null is allowed.
 */
void mcpm_operation_cancel(const mcpm_operation *operation);

/**
 * Frees an operation without cancelling it; null is allowed.
 */
void mcpm_operation_free(MCPM_OWNED mcpm_operation *operation);

/**
 * Frees a prompt; null is allowed. Builders, workloads and proxies that use the prompt keep it until they end.
 */
void mcpm_user_prompt_free(MCPM_OWNED mcpm_user_prompt *prompt);

/**
 * Creates a prompt without callbacks; free it with `mcpm_user_prompt_free`.
 *
 * `user_data` is passed to each callback; it may be null. `free_user_data` is called once with `user_data`, on any
 * thread, when the prompt is freed and no builder, workload or proxy uses it any more; it may be null and must not
 * block.
 */
MCPM_MUST_USE
MCPM_OWNED mcpm_user_prompt *mcpm_user_prompt_new(void *user_data,
                                                  mcpm_free_user_data free_user_data)
MCPM_FREED_BY(mcpm_user_prompt_free);

/**
 * Sets the callback that prompts for text that is not echoed, for example the password of the secret store.
 */
void mcpm_user_prompt_ask_secret(mcpm_user_prompt *prompt, mcpm_ask_question callback);

/**
 * Sets the callback that prompts for text that may be echoed. By default, mcpm calls the callback for text that is not
 * echoed.
 */
void mcpm_user_prompt_ask_text(mcpm_user_prompt *prompt,
                               mcpm_ask_question callback);

/**
 * Sets the callback that asks the user to allow access to this machine, such as a mount that a registry entry
 * requests; the question names the access. The callback answers with `mcpm_prompt_answer_approval`; without an answer,
 * the access is denied. By default, mcpm calls the callback for text that may be echoed, and the answer `yes` allows
 * the access.
 */
void mcpm_user_prompt_approve(mcpm_user_prompt *prompt,
                              mcpm_ask_question callback);

/**
 * Sets the callback that asks the user to log in to a remote server. The callback opens the browser, and returns
 * without waiting for the login, which continues in the browser. The callback sets an answer only if it fails.
 */
void mcpm_user_prompt_show_login(mcpm_user_prompt *prompt,
                                 mcpm_ask_login callback);

/**
 * Sets the callback that asks for the URL to which a login has redirected the browser, in case the browser runs on
 * another machine.
 *
 * mcpm calls it after the login was shown, and again if the user entered a URL that does not belong to this login. An
 * answer that comes after the login has ended is ignored; return no later than the login's timeout.
 */
void mcpm_user_prompt_ask_redirect(mcpm_user_prompt *prompt,
                                   mcpm_ask_login callback);

/**
 * Answers with a text. The text is copied.
 */
void mcpm_prompt_answer_text(mcpm_prompt_answer *answer, const char *text);

/**
 * Answers whether the user allows the access.
 */
void mcpm_prompt_answer_approval(mcpm_prompt_answer *answer, bool allowed);

/**
 * Answers that the user has cancelled. The operation that needs the answer ends with `MCPM_STATUS_INTERRUPTED`.
 */
void mcpm_prompt_answer_cancel(mcpm_prompt_answer *answer);

/**
 * Answers that the callback failed. The operation that needs the answer ends with `MCPM_STATUS_IO`. The message is
 * copied; null is allowed.
 */
void mcpm_prompt_answer_fail(mcpm_prompt_answer *answer,
                             const char *message);

/**
 * Returns the host of the remote server. Returns null for a null pointer.
 */
const char *mcpm_login_prompt_server(const mcpm_login_prompt *login);

/**
 * Returns the URL to open in a browser. Only the user may see this URL: do not write it to logs. Returns null for a
 * null pointer.
 */
const char *mcpm_login_prompt_url(const mcpm_login_prompt *login);

/**
 * Returns whether the page redirects the browser to this machine. If the browser runs on another machine, the redirect
 * fails, and the callback for the URL of the redirect can ask for that URL.
 */
bool mcpm_login_prompt_has_redirect(const mcpm_login_prompt *login);

/**
 * Returns the URL to open on another device; null if the authorization server allows no login on another device.
 */
const char *mcpm_login_prompt_device_url(const mcpm_login_prompt *login);

/**
 * Returns the code to enter on another device; null if the authorization server allows no login on another device. If
 * the page does not ask for a code, it shows the code, so that the user can compare both.
 */
const char *mcpm_login_prompt_device_code(const mcpm_login_prompt *login);

/**
 * Returns whether to open the browser; if not, the URL is only shown.
 */
bool mcpm_login_prompt_open_browser(const mcpm_login_prompt *login);

/**
 * Returns how long the login may take, in milliseconds.
 */
uint64_t mcpm_login_prompt_timeout(const mcpm_login_prompt *login);

/**
 * Frees a builder; null is allowed.
 */
void mcpm_proxy_builder_free(MCPM_OWNED mcpm_proxy_builder *builder);

/**
 * Creates a builder without options; free it with `mcpm_proxy_builder_free`.
 */
MCPM_MUST_USE
MCPM_OWNED mcpm_proxy_builder *mcpm_proxy_builder_new(void)
MCPM_FREED_BY(mcpm_proxy_builder_free);

/**
 * Sets an option by name, such as `target-uri`, with its value in text form, as on the command line.
 */
void mcpm_proxy_builder_set(mcpm_proxy_builder *builder, const char *name, const char *value);

/**
 * Sets the prompt for requests to the user at the start and later, for example to log in to a remote server. The
 * caller must still free `prompt`.
 */
void mcpm_proxy_builder_user_prompt(mcpm_proxy_builder *builder,
                                    const mcpm_user_prompt *prompt);

/**
 * Sets whether the proxy opens no port. Without a port, only `mcpm_proxy_connect` can connect to the server.
 */
void mcpm_proxy_builder_in_process_only(mcpm_proxy_builder *builder, bool value);

/**
 * Starts a proxy and waits until clients can connect.
 *
 * The builder cannot be used for another start, and must still be freed. On success, `proxy` is set to a handle; free
 * the handle with `mcpm_proxy_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_start(mcpm_proxy_builder *builder,
                             MCPM_OWNED mcpm_proxy **proxy,
                             MCPM_OWNED mcpm_error **error);

/**
 * Starts a proxy as `mcpm_proxy_start` does, but returns at once, and calls `on_started` when clients can connect or
 * the start has failed.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the start; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_start_async(mcpm_proxy_builder *builder,
                                   mcpm_on_proxy_started on_started,
                                   void *user_data,
                                   MCPM_OWNED mcpm_operation **operation,
                                   MCPM_OWNED mcpm_error **error);

/**
 * Returns the name of the server; valid as long as the handle. Returns null for a null pointer.
 */
const char *mcpm_proxy_name(const mcpm_proxy *proxy);

/**
 * Returns the URL for clients; valid as long as the handle. Returns null for a null pointer.
 */
const char *mcpm_proxy_url(const mcpm_proxy *proxy);

/**
 * Returns a warning of the start by its index from 0, for example that callers are not authenticated, or that an
 * option has no effect; valid as long as the handle. Returns null for a null pointer and if the index is out of
 * range.
 */
const char *mcpm_proxy_warning(const mcpm_proxy *proxy,
                               size_t number);

/**
 * Checks with one MCP exchange whether the target is an MCP server. A start does not check this, because the target
 * may be started later.
 *
 * `remark` may be null. Otherwise it is set to a remark about a server that passes, for example that it requires a
 * login, and must be freed with `mcpm_string_free`; it is set to null if there is none.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_check(const mcpm_proxy *proxy,
                             MCPM_OWNED char **remark,
                             MCPM_OWNED mcpm_error **error);

/**
 * Checks the target as `mcpm_proxy_check` does, but returns at once, and calls `on_checked` with the outcome.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the check; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_check_async(const mcpm_proxy *proxy,
                                   mcpm_on_checked on_checked,
                                   void *user_data,
                                   MCPM_OWNED mcpm_operation **operation,
                                   MCPM_OWNED mcpm_error **error);

/**
 * Connects to the server from this process, without a port. Free the connection with `mcpm_connection_free`.
 *
 * `bearer_token` is the access token of the caller if the proxy authenticates callers; it may be null. `transport` is
 * the transport of the server, `streamable-http` or `sse`; if it is null, the URL of the target determines the
 * transport.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_connect(const mcpm_proxy *proxy,
                               const char *bearer_token,
                               const char *transport,
                               MCPM_OWNED mcpm_connection **connection,
                               MCPM_OWNED mcpm_error **error);

/**
 * Returns the phase of a proxy.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_status(const mcpm_proxy *proxy,
                              mcpm_phase *phase,
                              MCPM_OWNED mcpm_error **error);

/**
 * Stops listening and waits up to 2 s for pending responses.
 *
 * Stopping twice is allowed. The handle must still be freed.
 */
mcpm_status mcpm_proxy_stop(mcpm_proxy *proxy, MCPM_OWNED mcpm_error **error);

/**
 * Stops a proxy as `mcpm_proxy_stop` does, but returns at once, and calls `on_end` when it has stopped. Stopping
 * cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_proxy_stop_async(mcpm_proxy *proxy,
                                  mcpm_on_end on_end,
                                  void *user_data,
                                  MCPM_OWNED mcpm_error **error);

/**
 * Frees a proxy; null is allowed. A running proxy stops shortly afterwards. To wait until it has stopped, call
 * `mcpm_proxy_stop` first.
 */
void mcpm_proxy_free(MCPM_OWNED mcpm_proxy *proxy);

/**
 * Returns a value by its name, in text form: numbers in decimal, objects and lists as JSON. It is valid as long as the
 * record. Returns null if the record has no such value, and for null pointers.
 */
const char *mcpm_record_get(const mcpm_record *record,
                            const char *name);

/**
 * Returns all values as a JSON object, valid as long as the record. Returns null for a null pointer.
 */
const char *mcpm_record_json(const mcpm_record *record);

/**
 * Frees a record that is marked `MCPM_OWNED`; null is allowed.
 */
void mcpm_record_free(MCPM_OWNED mcpm_record *record);

/**
 * Returns the number of records; 0 for null.
 */
size_t mcpm_record_list_length(const mcpm_record_list *list);

/**
 * Returns a record by its index from 0. The record is valid as long as the list, and must not be freed. Returns null
 * if the index is out of range, and for a null pointer.
 */
const mcpm_record *mcpm_record_list_get(const mcpm_record_list *list,
                                        size_t index);

/**
 * Frees a list and its records; null is allowed.
 */
void mcpm_record_list_free(MCPM_OWNED mcpm_record_list *list);

/**
 * Server name, image, package (`uvx://`, `npx://`, `go://`), local path, or URL.
 *
 * A name without a tag is looked up in the registry; the registry entry supplies the transport, the
 * permissions and the environment variables. A name that the registry does not have is taken as the
 * name of an image. Use `registry:NAME` or `image:IMAGE` to select one of the two. An image is run as
 * it is. mcpm builds a container image for a package, and for a path that begins with `./`, `../` or
 * `/`: a script such as `./server.py` or `./server.ts`, a folder with a `pyproject.toml`,
 * `package.json` or `go.mod`, or an MCP bundle (`./server.mcpb`). For a URL, mcpm runs only a proxy,
 * which forwards requests to the remote server.
 */
void mcpm_workload_builder_server(mcpm_workload_builder *builder, const char *value);

/**
 * Arguments passed to the MCP server.
 */
void mcpm_workload_builder_args(mcpm_workload_builder *builder, const char *value);

/**
 * Name of the workload.
 *
 * Default: generated from the server.
 */
void mcpm_workload_builder_name(mcpm_workload_builder *builder, const char *value);

/**
 * Group the workload belongs to.
 *
 * A group that does not exist is created.
 *
 * Default: `default`.
 */
void mcpm_workload_builder_group(mcpm_workload_builder *builder, const char *value);

/**
 * Label to add to the container.
 */
void mcpm_workload_builder_label(mcpm_workload_builder *builder, const char *value);

/**
 * Transport mode of the server.
 *
 * If the registry entry names no transport, or if there is no registry entry, the default is
 * `streamable-http` for URLs and for images that expose a port, and `stdio` for all other servers.
 *
 * One of `sse`, `streamable-http`, `stdio`.
 *
 * Default: from the registry entry or the kind of server.
 */
void mcpm_workload_builder_transport(mcpm_workload_builder *builder, const char *value);

/**
 * Transport that the proxy of a stdio server offers; `sse` is deprecated and will be removed.
 *
 * One of `streamable-http`, `sse`.
 *
 * Default: `streamable-http`.
 */
void mcpm_workload_builder_proxy_mode(mcpm_workload_builder *builder, const char *value);

/**
 * IP address or hostname that the HTTP proxy listens on.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_workload_builder_host(mcpm_workload_builder *builder, const char *value);

/**
 * Host port the HTTP proxy listens on; 0 picks a free one.
 *
 * Default: a free port.
 */
void mcpm_workload_builder_proxy_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Host that traffic is forwarded to, for the transports `sse` and `streamable-http`.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_workload_builder_target_host(mcpm_workload_builder *builder, const char *value);

/**
 * Port the container exposes, for the transports `sse` and `streamable-http`.
 *
 * Default: from the registry entry, otherwise the port the image exposes, otherwise 8080.
 */
void mcpm_workload_builder_target_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Publish a container port on the host.
 *
 * The port is bound to the loopback address unless another address precedes it. If only the container
 * port is given, a free host port is chosen. IPv6 addresses are written in brackets.
 */
void mcpm_workload_builder_publish(mcpm_workload_builder *builder, const char *value);

/**
 * Network mode of the container: `bridge`, `host`, `none`, `container:NAME`, or the name of a network.
 *
 * Without this option, the `network.mode` of the permission profile is used, if the profile has one.
 *
 * Default: `bridge`.
 */
void mcpm_workload_builder_network(mcpm_workload_builder *builder, const char *value);

/**
 * Isolate the container network from the host.
 *
 * Each connection of the server passes through mcpm, which rejects connections that the permission
 * profile does not allow. Even without this option, mcpm isolates the container if the permission
 * profile allows no connections, or is a file that restricts them. The built-in runtime isolates all
 * containers except those in the network `host`.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_isolate_network(mcpm_workload_builder *builder, bool value);

/**
 * Let an isolated container connect to the container runtime's gateway addresses.
 *
 * These addresses, such as `host.docker.internal` and `172.17.0.1`, lead to this machine. Without this
 * option, mcpm blocks connections to them, even if the permission profile has `insecure_allow_all`.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_allow_runtime_gateway(mcpm_workload_builder *builder, bool value);

/**
 * Environment variable for the server.
 *
 * On the command line, `-e NAME` passes the value that the variable has in mcpm's own environment,
 * where it must be set.
 */
void mcpm_workload_builder_env(mcpm_workload_builder *builder, const char *value);

/**
 * Load environment variables from a file.
 */
void mcpm_workload_builder_env_file(mcpm_workload_builder *builder, const char *value);

/**
 * Load environment variables from all files in a folder, except hidden files.
 */
void mcpm_workload_builder_env_file_dir(mcpm_workload_builder *builder, const char *value);

/**
 * Secret from the secret store, passed to the server as an environment variable.
 *
 * `NAME` is the name used with `mcpm secret set`, and `TARGET` is the name of the variable. With the
 * target `file:PATH`, the server gets the secret as a file at this absolute path in its container
 * instead. With `header:HEADER`, the proxy adds the header `HEADER` with the secret to each request to
 * a remote server.
 */
void mcpm_workload_builder_secret(mcpm_workload_builder *builder, const char *value);

/**
 * Mount a host file or folder into the container.
 *
 * The container path may be followed by a colon and comma-separated options: `ro` or `rw`, and `z`
 * (shared) or `Z` (private) for SELinux relabelling. A relative host path is resolved from the current
 * folder.
 */
void mcpm_workload_builder_volume(mcpm_workload_builder *builder, const char *value);

/**
 * Files and networks that the server may use.
 *
 * Default: from the registry entry, otherwise `network`.
 */
void mcpm_workload_builder_permission_profile(mcpm_workload_builder *builder, const char *value);

/**
 * Write a permission profile that allows the hosts that the server connects to or looks up.
 *
 * While the profile is recorded, mcpm isolates the server's network. If the registry entry of the
 * server has permissions, the server may connect only to the hosts that they allow; otherwise, to all
 * public addresses.
 */
void mcpm_workload_builder_learn(mcpm_workload_builder *builder, const char *value);

/**
 * Run in the foreground until the server exits.
 *
 * CLI only; a program that uses the library runs its workloads in its own process.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_foreground(mcpm_workload_builder *builder, bool value);

/**
 * Load the configuration from a file that `mcpm export` has written.
 *
 * Of the options that configure the workload, only `--name`, `--group`, `--proxy-port`, `--foreground`
 * and `--debug` can be combined with it. They take precedence over the file.
 */
void mcpm_workload_builder_from_config(mcpm_workload_builder *builder, const char *value);

/**
 * Load global ignore patterns from `mcpmignore` in the configuration folder.
 *
 * If a file or folder in a mounted folder matches one of these patterns, or a pattern in a
 * `.mcpmignore` file there, the server sees an empty file or folder in its place. Builds of local
 * projects leave out files that match the global patterns. The syntax is that of `.gitignore`.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_ignore_globally(mcpm_workload_builder *builder, bool value);

/**
 * Print the container paths of the overlays that hide ignored files and folders.
 *
 * CLI only; library users find them in the plan.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_print_resolved_overlays(mcpm_workload_builder *builder, bool value);

/**
 * What to do if the signature of the image is missing or invalid.
 *
 * mcpm reads the signature from the image registry. The required signer is set with the other
 * verification options or by the server's registry entry. If neither names a signer, `warn` starts the
 * image unverified, and `enabled` refuses to start it. The container runs the digest that was
 * verified.
 *
 * One of `warn`, `enabled`, `disabled`.
 *
 * Default: `warn`.
 */
void mcpm_workload_builder_image_verification(mcpm_workload_builder *builder, const char *value);

/**
 * PEM file with the public key of the required signer of the image.
 */
void mcpm_workload_builder_image_verification_key(mcpm_workload_builder *builder, const char *value);

/**
 * Required identity in the signer's certificate: an email address or a URI.
 *
 * Default: from the registry entry.
 */
void mcpm_workload_builder_certificate_identity(mcpm_workload_builder *builder, const char *value);

/**
 * Required OIDC issuer in the signer's certificate.
 *
 * Default: from the registry entry.
 */
void mcpm_workload_builder_certificate_oidc_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Sigstore `trusted_root.json` with the trusted certificate authorities and logs.
 *
 * Default: Sigstore's public instance.
 */
void mcpm_workload_builder_sigstore_trusted_root(mcpm_workload_builder *builder, const char *value);

/**
 * Custom CA certificate file for container builds and for servers in containers.
 *
 * The build of a package and the package's server trust the certificates in the file. A server from an
 * image gets the certificates as files in its container, and environment variables with the paths of
 * these files, such as `SSL_CERT_FILE`.
 */
void mcpm_workload_builder_ca_cert(mcpm_workload_builder *builder, const char *value);

/**
 * CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
 *
 * mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
 * `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
 * token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
 * container engine pulls images with its own certificates.
 */
void mcpm_workload_builder_mcpm_ca_bundle(mcpm_workload_builder *builder, const char *value);

/**
 * Base image for packages, and for local scripts, projects and MCP bundles.
 */
void mcpm_workload_builder_runtime_image(mcpm_workload_builder *builder, const char *value);

/**
 * Additional Linux package to install in the builder and runtime stages of the image.
 */
void mcpm_workload_builder_runtime_add_package(mcpm_workload_builder *builder, const char *value);

/**
 * Path prefix prepended to URLs that the proxy sends to clients, such as SSE endpoint URLs.
 */
void mcpm_workload_builder_endpoint_prefix(mcpm_workload_builder *builder, const char *value);

/**
 * Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_trust_proxy_headers(mcpm_workload_builder *builder, bool value);

/**
 * Tools to expose to clients; all others are hidden.
 *
 * Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
 * starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
 * entries start with `!`, all other tools are exposed.
 */
void mcpm_workload_builder_tools(mcpm_workload_builder *builder, const char *value);

/**
 * JSON file that overrides tool names and descriptions.
 */
void mcpm_workload_builder_tools_override(mcpm_workload_builder *builder, const char *value);

/**
 * Authorization configuration file.
 *
 * JSON or YAML, with policies in Cedar.
 */
void mcpm_workload_builder_authz_config(mcpm_workload_builder *builder, const char *value);

/**
 * Audit configuration file.
 *
 * JSON or YAML. Turns audit logging on.
 */
void mcpm_workload_builder_audit_config(mcpm_workload_builder *builder, const char *value);

/**
 * Enable audit logging with the default configuration.
 *
 * Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
 * folder; for `mcpm proxy`, on standard output.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_enable_audit(mcpm_workload_builder *builder, bool value);

/**
 * Enable debug mode.
 *
 * Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_debug(mcpm_workload_builder *builder, bool value);

/**
 * Container runtime to use.
 *
 * One of `auto`, `docker`, `podman`, `builtin`.
 *
 * Default: `auto`.
 */
void mcpm_workload_builder_runtime(mcpm_workload_builder *builder, const char *value);

/**
 * Which command of the package starts the server, if the package has more than one command.
 */
void mcpm_workload_builder_package_command(mcpm_workload_builder *builder, const char *value);

/**
 * Additional package to install together with a Python or Node.js package, project or script.
 */
void mcpm_workload_builder_with_package(mcpm_workload_builder *builder, const char *value);

/**
 * Value for a key of an MCP bundle; the bundle's manifest defines the keys.
 *
 * If the key takes a file or folder, mcpm mounts that file or folder read-write at the same path in
 * the container; `-v PATH:PATH:ro` mounts it read-only. If a key may have several values, repeat the
 * option. For a key that is a secret, use `--secret NAME,target=VARIABLE` instead: `VARIABLE` is the
 * environment variable to which the manifest assigns the key.
 */
void mcpm_workload_builder_config(mcpm_workload_builder *builder, const char *value);

/**
 * Rebuild the package's image with the newest matching version of the package.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_rebuild(mcpm_workload_builder *builder, bool value);

/**
 * Use an image that is present locally; do not pull or build one.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_offline(mcpm_workload_builder *builder, bool value);

/**
 * Whether a server that has exited is started again: never, only after a failure, or always.
 *
 * The delay before a restart grows, and after 10 restarts in a row the workload fails. In the
 * foreground, the default is `no`. `mcpm start --interrupted` does not start workloads whose value is
 * `no`.
 *
 * One of `no`, `on-failure`, `always`.
 *
 * Default: `always`.
 */
void mcpm_workload_builder_restart(mcpm_workload_builder *builder, const char *value);

/**
 * How long a server may take to become ready, such as `90s` or `5m`.
 *
 * Default: `60s`.
 */
void mcpm_workload_builder_start_timeout(mcpm_workload_builder *builder, uint64_t milliseconds);

/**
 * Additional origins of web pages that may call the proxy.
 *
 * If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
 * `http://localhost:3000`. It rejects pages from all other origins.
 */
void mcpm_workload_builder_allowed_origins(mcpm_workload_builder *builder, const char *value);

/**
 * Additional hostnames that clients may use to reach the proxy.
 *
 * The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
 * rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
 * names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
 * `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
 * addresses and, if it requires authentication, all names.
 */
void mcpm_workload_builder_allowed_hosts(mcpm_workload_builder *builder, const char *value);

/**
 * Registry that server names are looked up in: `embedded`, a file, or a URL.
 *
 * A URL whose path ends in `.json` is a document; any other URL is the base of a registry's REST API.
 *
 * Default: from the configuration, otherwise `embedded`.
 */
void mcpm_workload_builder_registry(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC issuer URL.
 *
 * Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
 * claim.
 */
void mcpm_workload_builder_oidc_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Expected audience of the token.
 *
 * Default: `--resource-url`, otherwise the URL of the proxy.
 */
void mcpm_workload_builder_oidc_audience(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC client ID.
 *
 * The proxy identifies itself with this ID at the introspection endpoint. Without
 * `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
 * as well.
 */
void mcpm_workload_builder_oidc_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * OIDC client secret, for introspection.
 */
void mcpm_workload_builder_oidc_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * Token introspection endpoint URL.
 *
 * If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
 * and only tokens that are not JWTs are sent to this endpoint.
 *
 * Default: from the issuer's metadata, if a client secret is set.
 */
void mcpm_workload_builder_oidc_introspection_url(mcpm_workload_builder *builder, const char *value);

/**
 * URL to fetch the JWKS from.
 *
 * Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
 *
 * Default: from the issuer's metadata.
 */
void mcpm_workload_builder_oidc_jwks_url(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth scopes that the protected resource metadata advertises (RFC 9728).
 *
 * Default: `openid`.
 */
void mcpm_workload_builder_oidc_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth scopes that a token must have.
 */
void mcpm_workload_builder_oidc_required_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
 *
 * Loopback URLs need no HTTPS, even without this option.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_oidc_insecure_allow_http(mcpm_workload_builder *builder, bool value);

/**
 * Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_jwks_allow_private_ip(mcpm_workload_builder *builder, bool value);

/**
 * File with a bearer token that authenticates JWKS and OIDC requests.
 */
void mcpm_workload_builder_jwks_auth_token_file(mcpm_workload_builder *builder, const char *value);

/**
 * Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
 *
 * Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
 * if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
 * forwards the credentials of its clients.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_remote_auth(mcpm_workload_builder *builder, bool value);

/**
 * OAuth/OIDC issuer URL.
 */
void mcpm_workload_builder_remote_auth_issuer(mcpm_workload_builder *builder, const char *value);

/**
 * Authorization endpoint, instead of the issuer, for an authorization server without metadata.
 */
void mcpm_workload_builder_remote_auth_authorize_url(mcpm_workload_builder *builder, const char *value);

/**
 * Token endpoint, instead of the issuer, for an authorization server without metadata.
 */
void mcpm_workload_builder_remote_auth_token_url(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
 */
void mcpm_workload_builder_remote_auth_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * URL of a client ID metadata document, for authorization servers that support such documents.
 */
void mcpm_workload_builder_remote_auth_client_metadata_url(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
 *
 * Do not use this option in production: other users of the machine may see the secret in the process
 * list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
 * over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
 */
void mcpm_workload_builder_remote_auth_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * File with the OAuth client secret.
 */
void mcpm_workload_builder_remote_auth_client_secret_file(mcpm_workload_builder *builder, const char *value);

/**
 * Bearer token for the remote server, instead of OAuth.
 *
 * Do not use this option in production: other users of the machine may see the token in the process
 * list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
 * over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
 */
void mcpm_workload_builder_remote_auth_bearer_token(mcpm_workload_builder *builder, const char *value);

/**
 * File with the bearer token for the remote server.
 */
void mcpm_workload_builder_remote_auth_bearer_token_file(mcpm_workload_builder *builder, const char *value);

/**
 * Scopes to request.
 *
 * Default: the scopes that the server asks for, otherwise `openid,profile,email` if
 * `--remote-auth-issuer` supports OIDC.
 */
void mcpm_workload_builder_remote_auth_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth 2.0 resource indicator (RFC 8707).
 */
void mcpm_workload_builder_remote_auth_resource(mcpm_workload_builder *builder, const char *value);

/**
 * Resource identifier in the protected resource metadata (RFC 9728).
 *
 * Default: the URL the proxy listens on.
 */
void mcpm_workload_builder_resource_url(mcpm_workload_builder *builder, const char *value);

/**
 * Port of the local OAuth callback server.
 *
 * Default: `8666`.
 */
void mcpm_workload_builder_remote_auth_callback_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * Do not open a browser for the OAuth flow.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_remote_auth_skip_browser(mcpm_workload_builder *builder, bool value);

/**
 * Timeout of the OAuth flow, such as `30s` or `1m30s`.
 *
 * Default: `30s`.
 */
void mcpm_workload_builder_remote_auth_timeout(mcpm_workload_builder *builder, uint64_t milliseconds);

/**
 * Header added to requests to the remote server.
 */
void mcpm_workload_builder_remote_forward_headers(mcpm_workload_builder *builder, const char *value);

/**
 * Header added to requests to the remote server, with a secret from the secret store as its value.
 */
void mcpm_workload_builder_remote_forward_headers_secret(mcpm_workload_builder *builder, const char *value);

/**
 * OAuth 2.0 token exchange endpoint; enables token exchange.
 *
 * Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
 * Requires incoming authentication; see `--oidc-issuer`.
 */
void mcpm_workload_builder_token_exchange_url(mcpm_workload_builder *builder, const char *value);

/**
 * Audience to request for the new token.
 */
void mcpm_workload_builder_token_exchange_audience(mcpm_workload_builder *builder, const char *value);

/**
 * Client ID for token exchange.
 */
void mcpm_workload_builder_token_exchange_client_id(mcpm_workload_builder *builder, const char *value);

/**
 * Client secret for token exchange.
 *
 * Do not use this option in production: other users of the machine may see the secret in the process
 * list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
 * be combined with `--token-exchange-client-secret-file`.
 */
void mcpm_workload_builder_token_exchange_client_secret(mcpm_workload_builder *builder, const char *value);

/**
 * File with the client secret for token exchange.
 *
 * mcpm reads the file again for each exchange. The file takes precedence over the variable
 * `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
 */
void mcpm_workload_builder_token_exchange_client_secret_file(mcpm_workload_builder *builder,
                                                             const char *value);

/**
 * Scopes to request for the new token.
 */
void mcpm_workload_builder_token_exchange_scopes(mcpm_workload_builder *builder, const char *value);

/**
 * Type of the token that is exchanged.
 *
 * With `id_token`, ID tokens are accepted from callers as well.
 *
 * One of `access_token`, `id_token`.
 *
 * Default: `access_token`.
 */
void mcpm_workload_builder_token_exchange_subject_token_type(mcpm_workload_builder *builder,
                                                             const char *value);

/**
 * Header in which the new token is sent to the server.
 *
 * Default: `Authorization`, in place of the caller's token.
 */
void mcpm_workload_builder_token_exchange_header_name(mcpm_workload_builder *builder, const char *value);

/**
 * OTLP endpoint URL.
 *
 * With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
 * has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
 */
void mcpm_workload_builder_otel_endpoint(mcpm_workload_builder *builder, const char *value);

/**
 * Use HTTP instead of HTTPS for the OTLP endpoint.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_otel_insecure(mcpm_workload_builder *builder, bool value);

/**
 * Header to add to OTLP requests.
 */
void mcpm_workload_builder_otel_headers(mcpm_workload_builder *builder, const char *value);

/**
 * Service name in traces and metrics.
 *
 * Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
 */
void mcpm_workload_builder_otel_service_name(mcpm_workload_builder *builder, const char *value);

/**
 * Additional resource attributes in traces and metrics.
 */
void mcpm_workload_builder_otel_custom_attributes(mcpm_workload_builder *builder, const char *value);

/**
 * Names of environment variables to include in spans.
 *
 * These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
 */
void mcpm_workload_builder_otel_env_vars(mcpm_workload_builder *builder, const char *value);

/**
 * Export traces; requires an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_tracing_enabled(mcpm_workload_builder *builder, bool value);

/**
 * Export metrics with OTLP; requires an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_metrics_enabled(mcpm_workload_builder *builder, bool value);

/**
 * Trace sampling rate, from 0.0 to 1.0.
 *
 * Default: `0.1`.
 */
void mcpm_workload_builder_otel_sampling_rate(mcpm_workload_builder *builder, double value);

/**
 * Serve Prometheus metrics at `/metrics` on the port of the proxy.
 *
 * If incoming authentication is configured, requests to `/metrics` also require a token.
 *
 * Default: `false`.
 */
void mcpm_workload_builder_otel_enable_prometheus_metrics_path(mcpm_workload_builder *builder, bool value);

/**
 * Emit legacy attribute names alongside the new semantic-convention names.
 *
 * Default: `true`.
 */
void mcpm_workload_builder_otel_use_legacy_attributes(mcpm_workload_builder *builder, bool value);

/**
 * Loopback port on which `/metrics` is served without a token.
 */
void mcpm_workload_builder_otel_prometheus_port(mcpm_workload_builder *builder, uint16_t value);

/**
 * OTLP transport.
 *
 * One of `http`, `grpc`.
 *
 * Default: `http`.
 */
void mcpm_workload_builder_otel_protocol(mcpm_workload_builder *builder, const char *value);

/**
 * Name of the MCP server, for messages and logs.
 */
void mcpm_proxy_builder_server_name(mcpm_proxy_builder *builder, const char *value);

/**
 * URI of the target MCP server.
 */
void mcpm_proxy_builder_target_uri(mcpm_proxy_builder *builder, const char *value);

/**
 * IP address or hostname that the HTTP proxy listens on.
 *
 * Default: `127.0.0.1`.
 */
void mcpm_proxy_builder_host(mcpm_proxy_builder *builder, const char *value);

/**
 * Host port the proxy listens on; 0 picks a free one.
 *
 * Default: a free port.
 */
void mcpm_proxy_builder_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * Enable debug mode.
 *
 * Adds debug messages to the log. CLI only; library users configure `tracing` themselves.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_debug(mcpm_proxy_builder *builder, bool value);

/**
 * CA certificate bundle for mcpm's own HTTP requests (JWKS, OIDC discovery, etc.).
 *
 * mcpm trusts these certificates in addition to those of the system: for remote servers, the target of
 * `mcpm proxy`, server registries, image registries that signatures are read from, identity providers,
 * token exchange and telemetry. The built-in runtime also trusts them when it pulls an image. A
 * container engine pulls images with its own certificates.
 */
void mcpm_proxy_builder_mcpm_ca_bundle(mcpm_proxy_builder *builder, const char *value);

/**
 * Trust `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `-Prefix` from reverse proxies.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_trust_proxy_headers(mcpm_proxy_builder *builder, bool value);

/**
 * Tools to expose to clients; all others are hidden.
 *
 * Names are those that clients see. `*` matches any text, and `?` any single character. An entry that
 * starts with `!` hides the tools that it matches, and takes precedence over other entries; if all
 * entries start with `!`, all other tools are exposed.
 */
void mcpm_proxy_builder_tools(mcpm_proxy_builder *builder, const char *value);

/**
 * JSON file that overrides tool names and descriptions.
 */
void mcpm_proxy_builder_tools_override(mcpm_proxy_builder *builder, const char *value);

/**
 * Authorization configuration file.
 *
 * JSON or YAML, with policies in Cedar.
 */
void mcpm_proxy_builder_authz_config(mcpm_proxy_builder *builder, const char *value);

/**
 * Audit configuration file.
 *
 * JSON or YAML. Turns audit logging on.
 */
void mcpm_proxy_builder_audit_config(mcpm_proxy_builder *builder, const char *value);

/**
 * Enable audit logging with the default configuration.
 *
 * Each request is recorded as a line of JSON: for a workload, in a file in the workload's state
 * folder; for `mcpm proxy`, on standard output.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_enable_audit(mcpm_proxy_builder *builder, bool value);

/**
 * Additional origins of web pages that may call the proxy.
 *
 * If the proxy listens on a loopback address, it also accepts pages from loopback origins, such as
 * `http://localhost:3000`. It rejects pages from all other origins.
 */
void mcpm_proxy_builder_allowed_origins(mcpm_proxy_builder *builder, const char *value);

/**
 * Additional hostnames that clients may use to reach the proxy.
 *
 * The proxy rejects requests with any other name in the `Host` header, as a protection against DNS
 * rebinding. If the permission profile has `network.inbound.allow_host`, the proxy accepts only the
 * names listed there and here. Otherwise, it also accepts loopback names and the hosts of `--host` and
 * `--allowed-origins`. If it listens on an address that is not loopback, it also accepts all IP
 * addresses and, if it requires authentication, all names.
 */
void mcpm_proxy_builder_allowed_hosts(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC issuer URL.
 *
 * Each request then requires a token from this issuer. The URL must be identical to the tokens' `iss`
 * claim.
 */
void mcpm_proxy_builder_oidc_issuer(mcpm_proxy_builder *builder, const char *value);

/**
 * Expected audience of the token.
 *
 * Default: `--resource-url`, otherwise the URL of the proxy.
 */
void mcpm_proxy_builder_oidc_audience(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC client ID.
 *
 * The proxy identifies itself with this ID at the introspection endpoint. Without
 * `--oidc-introspection-url`, tokens that are not JWTs are introspected only if a client secret is set
 * as well.
 */
void mcpm_proxy_builder_oidc_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * OIDC client secret, for introspection.
 */
void mcpm_proxy_builder_oidc_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * Token introspection endpoint URL.
 *
 * If an issuer or a JWKS URL is set as well, JWTs are verified locally with the issuer's public keys,
 * and only tokens that are not JWTs are sent to this endpoint.
 *
 * Default: from the issuer's metadata, if a client secret is set.
 */
void mcpm_proxy_builder_oidc_introspection_url(mcpm_proxy_builder *builder, const char *value);

/**
 * URL to fetch the JWKS from.
 *
 * Without `--oidc-issuer`, tokens signed with these keys are accepted from any issuer.
 *
 * Default: from the issuer's metadata.
 */
void mcpm_proxy_builder_oidc_jwks_url(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth scopes that the protected resource metadata advertises (RFC 9728).
 *
 * Default: `openid`.
 */
void mcpm_proxy_builder_oidc_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth scopes that a token must have.
 */
void mcpm_proxy_builder_oidc_required_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * Allow OIDC and token exchange URLs without HTTPS, for development and testing (insecure).
 *
 * Loopback URLs need no HTTPS, even without this option.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_oidc_insecure_allow_http(mcpm_proxy_builder *builder, bool value);

/**
 * Allow JWKS, OIDC and token exchange endpoints on private IP addresses.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_jwks_allow_private_ip(mcpm_proxy_builder *builder, bool value);

/**
 * File with a bearer token that authenticates JWKS and OIDC requests.
 */
void mcpm_proxy_builder_jwks_auth_token_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Log in to the remote server with OAuth/OIDC, even if its responses do not ask for it.
 *
 * Without this option, `mcpm run` logs in if the server asks for it. Other commands then log in only
 * if another option for the login is set. `mcpm proxy` without any option of outgoing authentication
 * forwards the credentials of its clients.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_remote_auth(mcpm_proxy_builder *builder, bool value);

/**
 * OAuth/OIDC issuer URL.
 */
void mcpm_proxy_builder_remote_auth_issuer(mcpm_proxy_builder *builder, const char *value);

/**
 * Authorization endpoint, instead of the issuer, for an authorization server without metadata.
 */
void mcpm_proxy_builder_remote_auth_authorize_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Token endpoint, instead of the issuer, for an authorization server without metadata.
 */
void mcpm_proxy_builder_remote_auth_token_url(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth client ID; not needed when the authorization server registers clients dynamically (RFC 7591).
 */
void mcpm_proxy_builder_remote_auth_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * URL of a client ID metadata document, for authorization servers that support such documents.
 */
void mcpm_proxy_builder_remote_auth_client_metadata_url(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth client secret, if the authorization server has issued one for `--remote-auth-client-id`.
 *
 * Do not use this option in production: other users of the machine may see the secret in the process
 * list. The option takes precedence over `--remote-auth-client-secret-file`, which takes precedence
 * over the variable `MCPM_REMOTE_OAUTH_CLIENT_SECRET`.
 */
void mcpm_proxy_builder_remote_auth_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the OAuth client secret.
 */
void mcpm_proxy_builder_remote_auth_client_secret_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Bearer token for the remote server, instead of OAuth.
 *
 * Do not use this option in production: other users of the machine may see the token in the process
 * list. The option takes precedence over `--remote-auth-bearer-token-file`, which takes precedence
 * over the variable `MCPM_REMOTE_AUTH_BEARER_TOKEN`.
 */
void mcpm_proxy_builder_remote_auth_bearer_token(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the bearer token for the remote server.
 */
void mcpm_proxy_builder_remote_auth_bearer_token_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Scopes to request.
 *
 * Default: the scopes that the server asks for, otherwise `openid,profile,email` if
 * `--remote-auth-issuer` supports OIDC.
 */
void mcpm_proxy_builder_remote_auth_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth 2.0 resource indicator (RFC 8707).
 */
void mcpm_proxy_builder_remote_auth_resource(mcpm_proxy_builder *builder, const char *value);

/**
 * Resource identifier in the protected resource metadata (RFC 9728).
 *
 * Default: the URL the proxy listens on.
 */
void mcpm_proxy_builder_resource_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Port of the local OAuth callback server.
 *
 * Default: `8666`.
 */
void mcpm_proxy_builder_remote_auth_callback_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * Do not open a browser for the OAuth flow.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_remote_auth_skip_browser(mcpm_proxy_builder *builder, bool value);

/**
 * Timeout of the OAuth flow, such as `30s` or `1m30s`.
 *
 * Default: `30s`.
 */
void mcpm_proxy_builder_remote_auth_timeout(mcpm_proxy_builder *builder, uint64_t milliseconds);

/**
 * Header added to requests to the remote server.
 */
void mcpm_proxy_builder_remote_forward_headers(mcpm_proxy_builder *builder, const char *value);

/**
 * Header added to requests to the remote server, with a secret from the secret store as its value.
 */
void mcpm_proxy_builder_remote_forward_headers_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * OAuth 2.0 token exchange endpoint; enables token exchange.
 *
 * Each caller's token is exchanged there (RFC 8693), and the new token is sent to the server instead.
 * Requires incoming authentication; see `--oidc-issuer`.
 */
void mcpm_proxy_builder_token_exchange_url(mcpm_proxy_builder *builder, const char *value);

/**
 * Audience to request for the new token.
 */
void mcpm_proxy_builder_token_exchange_audience(mcpm_proxy_builder *builder, const char *value);

/**
 * Client ID for token exchange.
 */
void mcpm_proxy_builder_token_exchange_client_id(mcpm_proxy_builder *builder, const char *value);

/**
 * Client secret for token exchange.
 *
 * Do not use this option in production: other users of the machine may see the secret in the process
 * list. The option takes precedence over the variable `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`, and cannot
 * be combined with `--token-exchange-client-secret-file`.
 */
void mcpm_proxy_builder_token_exchange_client_secret(mcpm_proxy_builder *builder, const char *value);

/**
 * File with the client secret for token exchange.
 *
 * mcpm reads the file again for each exchange. The file takes precedence over the variable
 * `MCPM_TOKEN_EXCHANGE_CLIENT_SECRET`.
 */
void mcpm_proxy_builder_token_exchange_client_secret_file(mcpm_proxy_builder *builder, const char *value);

/**
 * Scopes to request for the new token.
 */
void mcpm_proxy_builder_token_exchange_scopes(mcpm_proxy_builder *builder, const char *value);

/**
 * Type of the token that is exchanged.
 *
 * With `id_token`, ID tokens are accepted from callers as well.
 *
 * One of `access_token`, `id_token`.
 *
 * Default: `access_token`.
 */
void mcpm_proxy_builder_token_exchange_subject_token_type(mcpm_proxy_builder *builder, const char *value);

/**
 * Header in which the new token is sent to the server.
 *
 * Default: `Authorization`, in place of the caller's token.
 */
void mcpm_proxy_builder_token_exchange_header_name(mcpm_proxy_builder *builder, const char *value);

/**
 * OTLP endpoint URL.
 *
 * With OTLP over HTTP, mcpm appends `/v1/traces` and `/v1/metrics` to the path of the URL. If the URL
 * has no scheme, mcpm uses `https`, or `http` with `--otel-insecure`.
 */
void mcpm_proxy_builder_otel_endpoint(mcpm_proxy_builder *builder, const char *value);

/**
 * Use HTTP instead of HTTPS for the OTLP endpoint.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_otel_insecure(mcpm_proxy_builder *builder, bool value);

/**
 * Header to add to OTLP requests.
 */
void mcpm_proxy_builder_otel_headers(mcpm_proxy_builder *builder, const char *value);

/**
 * Service name in traces and metrics.
 *
 * Default: `OTEL_SERVICE_NAME` of the environment, otherwise `mcpm-<name>`.
 */
void mcpm_proxy_builder_otel_service_name(mcpm_proxy_builder *builder, const char *value);

/**
 * Additional resource attributes in traces and metrics.
 */
void mcpm_proxy_builder_otel_custom_attributes(mcpm_proxy_builder *builder, const char *value);

/**
 * Names of environment variables to include in spans.
 *
 * These are variables of the mcpm process, not of the server; `MCPM_*` is not allowed.
 */
void mcpm_proxy_builder_otel_env_vars(mcpm_proxy_builder *builder, const char *value);

/**
 * Export traces; requires an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_tracing_enabled(mcpm_proxy_builder *builder, bool value);

/**
 * Export metrics with OTLP; requires an OTLP endpoint.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_metrics_enabled(mcpm_proxy_builder *builder, bool value);

/**
 * Trace sampling rate, from 0.0 to 1.0.
 *
 * Default: `0.1`.
 */
void mcpm_proxy_builder_otel_sampling_rate(mcpm_proxy_builder *builder, double value);

/**
 * Serve Prometheus metrics at `/metrics` on the port of the proxy.
 *
 * If incoming authentication is configured, requests to `/metrics` also require a token.
 *
 * Default: `false`.
 */
void mcpm_proxy_builder_otel_enable_prometheus_metrics_path(mcpm_proxy_builder *builder, bool value);

/**
 * Emit legacy attribute names alongside the new semantic-convention names.
 *
 * Default: `true`.
 */
void mcpm_proxy_builder_otel_use_legacy_attributes(mcpm_proxy_builder *builder, bool value);

/**
 * Loopback port on which `/metrics` is served without a token.
 */
void mcpm_proxy_builder_otel_prometheus_port(mcpm_proxy_builder *builder, uint16_t value);

/**
 * OTLP transport.
 *
 * One of `http`, `grpc`.
 *
 * Default: `http`.
 */
void mcpm_proxy_builder_otel_protocol(mcpm_proxy_builder *builder, const char *value);

/**
 * Stops all workloads and proxies of the process, and mcpm's threads; starts in progress are rolled back.
 *
 * Call it before the process exits; otherwise running workloads are left behind. Handles must still be freed. A
 * later start creates new threads. If workloads could not be stopped, returns the status of the first failure.
 */
mcpm_status mcpm_shutdown(MCPM_OWNED mcpm_error **error);

/**
 * Returns the version of the library. The string must not be freed.
 */
const char *mcpm_version(void);

/**
 * Frees a builder; null is allowed.
 */
void mcpm_workload_builder_free(MCPM_OWNED mcpm_workload_builder *builder);

/**
 * Creates a builder without options; free it with `mcpm_workload_builder_free`.
 */
MCPM_MUST_USE
MCPM_OWNED mcpm_workload_builder *mcpm_workload_builder_new(void)
MCPM_FREED_BY(mcpm_workload_builder_free);

/**
 * Sets an option by name, such as `proxy-port`, with its value in text form, as on the command line.
 */
void mcpm_workload_builder_set(mcpm_workload_builder *builder, const char *name, const char *value);

/**
 * Sets the prompt for requests to the user at the start and later, for example to log in to a remote server. The
 * caller must still free `prompt`.
 */
void mcpm_workload_builder_user_prompt(mcpm_workload_builder *builder,
                                       const mcpm_user_prompt *prompt);

/**
 * Sets whether the proxy opens no port. Without a port, only `mcpm_workload_connect` can connect to the server.
 */
void mcpm_workload_builder_in_process_only(mcpm_workload_builder *builder,
                                           bool value);

/**
 * Sets the callback for the events of the workload, from its start on. The last events before a shutdown may be lost.
 *
 * `user_data` is passed to each call; it may be null. `free_user_data` is called once with `user_data`, on any thread,
 * when neither the builder nor the workload uses it any more; it may be null and must not block.
 */
void mcpm_workload_builder_on_event(mcpm_workload_builder *builder,
                                    mcpm_on_event on_event,
                                    void *user_data,
                                    mcpm_free_user_data free_user_data);

/**
 * Starts a workload and waits until clients can connect.
 *
 * The builder cannot be used for another start, and must still be freed. The environment variables of the process
 * determine where the record is and which engine is used, as for the command line. On success, `workload` is set to a
 * handle; free the handle with `mcpm_workload_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_start(mcpm_workload_builder *builder,
                                MCPM_OWNED mcpm_workload **workload,
                                MCPM_OWNED mcpm_error **error);

/**
 * Starts a workload as `mcpm_workload_start` does, but returns at once, and calls `on_started` when clients can
 * connect or the start has failed.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the start, which is rolled back then; free
 * it with `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_start_async(mcpm_workload_builder *builder,
                                      mcpm_on_workload_started on_started,
                                      void *user_data,
                                      MCPM_OWNED mcpm_operation **operation,
                                      MCPM_OWNED mcpm_error **error);

/**
 * Returns the name of a workload; valid as long as the handle. Returns null for a null pointer.
 */
const char *mcpm_workload_name(const mcpm_workload *workload);

/**
 * Returns the URL for clients; valid as long as the handle. Returns null for a null pointer.
 */
const char *mcpm_workload_url(const mcpm_workload *workload);

/**
 * Returns the phase of a workload.
 *
 * `status` may be null. Otherwise it is set to a record with the values `phase`, `reason`, `restarts`, `exit_code` and
 * `login`, as far as they are known; free it with `mcpm_record_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_status(const mcpm_workload *workload,
                                 mcpm_phase *phase,
                                 MCPM_OWNED mcpm_record **status,
                                 MCPM_OWNED mcpm_error **error);

/**
 * Calls `on_event` with the events of a workload from now on. The last events before a shutdown may be lost.
 *
 * `user_data` is passed to each call; it may be null. `free_user_data` is called once with `user_data`, on any thread,
 * when the workload has ended; it may be null and must not block.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_on_event(const mcpm_workload *workload,
                                   mcpm_on_event on_event,
                                   void *user_data,
                                   mcpm_free_user_data free_user_data,
                                   MCPM_OWNED mcpm_error **error);

/**
 * Connects to the server from this process, without a port. `bearer_token` is the access token of the caller if the
 * workload authenticates callers; it may be null. Free the connection with `mcpm_connection_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_connect(const mcpm_workload *workload,
                                  const char *bearer_token,
                                  MCPM_OWNED mcpm_connection **connection,
                                  MCPM_OWNED mcpm_error **error);

/**
 * Waits until the server has exited and will not be restarted, or until the workload was stopped.
 *
 * `status` may be null. Otherwise it is set to the record that `mcpm_workload_status` returns; free it with
 * `mcpm_record_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_wait(const mcpm_workload *workload,
                               MCPM_OWNED mcpm_record **status,
                               MCPM_OWNED mcpm_error **error);

/**
 * Calls `on_status` when the server has exited and will not be restarted, or when the workload was stopped, with the
 * record that `mcpm_workload_status` returns.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the wait; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_wait_async(const mcpm_workload *workload,
                                     mcpm_on_record on_status,
                                     void *user_data,
                                     MCPM_OWNED mcpm_operation **operation,
                                     MCPM_OWNED mcpm_error **error);

/**
 * Stops a workload and waits until it has stopped. A server that has not exited after `grace_seconds` is killed.
 *
 * The container and the record remain, so that `mcpm_workloads_start` and the command line can start the workload
 * again. Stopping twice is allowed. The handle must still be freed.
 */
mcpm_status mcpm_workload_stop(mcpm_workload *workload,
                               uint32_t grace_seconds,
                               MCPM_OWNED mcpm_error **error);

/**
 * Stops a workload as `mcpm_workload_stop` does, but returns at once, and calls `on_end` when it has stopped. Stopping
 * cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_workload_stop_async(mcpm_workload *workload,
                                     uint32_t grace_seconds,
                                     mcpm_on_end on_end,
                                     void *user_data,
                                     MCPM_OWNED mcpm_error **error);

/**
 * Frees a workload; null is allowed.
 *
 * A running workload ends: its server is killed, and its port is closed shortly afterwards. To let the server exit by
 * itself and to wait for the end, call `mcpm_workload_stop` first.
 */
void mcpm_workload_free(MCPM_OWNED mcpm_workload *workload);

/**
 * Returns the status of all recorded workloads, whichever process runs them, in the order of their names. The values
 * are those of `mcpm list --output json`. Free the list with `mcpm_record_list_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_list(MCPM_OWNED mcpm_record_list **list,
                                MCPM_OWNED mcpm_error **error);

/**
 * Lists the workloads as `mcpm_workloads_list` does, but returns at once, and calls `on_list` with the list.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the operation; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_list_async(mcpm_on_record_list on_list,
                                      void *user_data,
                                      MCPM_OWNED mcpm_operation **operation,
                                      MCPM_OWNED mcpm_error **error);

/**
 * Returns the status of one recorded workload. The values are those of `mcpm list --output json`. Free the record with
 * `mcpm_record_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_info(const char *name,
                                MCPM_OWNED mcpm_record **info,
                                MCPM_OWNED mcpm_error **error);

/**
 * Gets the status as `mcpm_workloads_info` does, but returns at once, and calls `on_info` with the status.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the operation; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_info_async(const char *name,
                                      mcpm_on_record on_info,
                                      void *user_data,
                                      MCPM_OWNED mcpm_operation **operation,
                                      MCPM_OWNED mcpm_error **error);

/**
 * Starts a workload again, with its recorded options, and waits until clients can connect. If a killed process of mcpm
 * has left the container running, the container is stopped first. Returns `MCPM_STATUS_NAME_TAKEN` if the workload is
 * running.
 *
 * `builder` may be null. Otherwise the start uses the builder's prompt, callback for events and `in_process_only`
 * setting. The builder must have no options, and must still be freed. On success, `workload` is set to a handle; free
 * the handle with `mcpm_workload_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_start(const char *name,
                                 mcpm_workload_builder *builder,
                                 MCPM_OWNED mcpm_workload **workload,
                                 MCPM_OWNED mcpm_error **error);

/**
 * Starts a workload as `mcpm_workloads_start` does, but returns at once, and calls `on_started` when clients can
 * connect or the start has failed.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel the start; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_start_async(const char *name,
                                       mcpm_workload_builder *builder,
                                       mcpm_on_workload_started on_started,
                                       void *user_data,
                                       MCPM_OWNED mcpm_operation **operation,
                                       MCPM_OWNED mcpm_error **error);

/**
 * Stops a workload, whichever process runs it. A server that has not exited after `grace_seconds` is killed. Does
 * nothing if it has stopped already.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_stop(const char *name,
                                uint32_t grace_seconds,
                                MCPM_OWNED mcpm_error **error);

/**
 * Stops a workload as `mcpm_workloads_stop` does, but returns at once, and calls `on_end` when it has stopped.
 * Stopping cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_stop_async(const char *name,
                                      uint32_t grace_seconds,
                                      mcpm_on_end on_end,
                                      void *user_data,
                                      MCPM_OWNED mcpm_error **error);

/**
 * Stops a workload as `mcpm_workloads_stop` does, and removes its containers and its record.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_remove(const char *name,
                                  uint32_t grace_seconds,
                                  MCPM_OWNED mcpm_error **error);

/**
 * Removes a workload as `mcpm_workloads_remove` does, but returns at once, and calls `on_end` when it is removed.
 * Removing cannot be cancelled.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_remove_async(const char *name,
                                        uint32_t grace_seconds,
                                        mcpm_on_end on_end,
                                        void *user_data,
                                        MCPM_OWNED mcpm_error **error);

/**
 * Reads the output of a workload's server: the last `tail` lines, or all lines if `tail` is negative; with `follow`,
 * also the output that the server writes until the workload ends. Calls `on_output` for each part.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_logs(const char *name,
                                bool follow,
                                int64_t tail,
                                mcpm_on_output on_output,
                                void *user_data,
                                MCPM_OWNED mcpm_error **error);

/**
 * Reads the output as `mcpm_workloads_logs` does, but returns at once. Calls `on_output` for each part, and `on_end`
 * at the end, both with `user_data`.
 *
 * `operation` may be null. Otherwise it is set to a handle that can cancel reading; free it with
 * `mcpm_operation_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_logs_async(const char *name,
                                      bool follow,
                                      int64_t tail,
                                      mcpm_on_output on_output,
                                      mcpm_on_end on_end,
                                      void *user_data,
                                      MCPM_OWNED mcpm_operation **operation,
                                      MCPM_OWNED mcpm_error **error);

/**
 * Writes the options of a workload to a file for the option `from-config`. Secrets are omitted.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_export_to(const char *name,
                                     const char *path,
                                     MCPM_OWNED mcpm_error **error);

/**
 * Accepts the current ignore files of a folder that servers could write to. Files that are no longer ignored are
 * visible to servers after their next start.
 *
 * `changed` may be null. Otherwise it is set to a list of the ignore files whose text has changed, each of them a
 * record with the value `path`; free it with `mcpm_record_list_free`.
 */
MCPM_MUST_USE
mcpm_status mcpm_workloads_accept_ignore_files(const char *folder,
                                               MCPM_OWNED mcpm_record_list **changed,
                                               MCPM_OWNED mcpm_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MCPM_H */
