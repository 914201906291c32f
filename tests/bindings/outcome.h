/* Shared by the C programs: waiting for the callback of an operation. */

#include <pthread.h>

#include "checks.h"

/* The arguments of a callback, and how often it was called. */
struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int called;
    void *result;
    mcpm_error *error;
};

#define OUTCOME {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, NULL}

static inline void deliver(void *user_data, void *result, mcpm_error *failure)
{
    struct outcome *outcome = (struct outcome *)user_data;
    pthread_mutex_lock(&outcome->lock);
    outcome->called += 1;
    outcome->result = result;
    outcome->error = failure;
    pthread_cond_signal(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

static inline void on_workload_started(void *user_data, mcpm_workload *workload, mcpm_error *failure)
{
    deliver(user_data, workload, failure);
}

static inline void on_proxy_started(void *user_data, mcpm_proxy *proxy, mcpm_error *failure)
{
    deliver(user_data, proxy, failure);
}

/* For a message, and for the remark of a check. */
static inline void on_text(void *user_data, char *text, mcpm_error *failure)
{
    deliver(user_data, text, failure);
}

static inline void on_record(void *user_data, mcpm_record *record, mcpm_error *failure)
{
    deliver(user_data, record, failure);
}

static inline void on_record_list(void *user_data, mcpm_record_list *list, mcpm_error *failure)
{
    deliver(user_data, list, failure);
}

static inline void on_end(void *user_data, mcpm_error *failure)
{
    deliver(user_data, NULL, failure);
}

/* Waits until the callback was called this often. */
static inline void await_calls(struct outcome *outcome, int calls)
{
    pthread_mutex_lock(&outcome->lock);
    while (outcome->called < calls) {
        pthread_cond_wait(&outcome->changed, &outcome->lock);
    }
    pthread_mutex_unlock(&outcome->lock);
}

/* Waits for the result of an operation, which must not fail. */
static inline void *await_result(struct outcome *outcome)
{
    await_calls(outcome, 1);
    CHECK(outcome->called == 1 && outcome->error == NULL);
    return outcome->result;
}

/* Waits until an operation has failed with a status. */
static inline void await_failure(struct outcome *outcome, mcpm_status status)
{
    await_calls(outcome, 1);
    CHECK(outcome->called == 1 && outcome->result == NULL && mcpm_error_status(outcome->error) == status);
    mcpm_error_free(outcome->error);
}
