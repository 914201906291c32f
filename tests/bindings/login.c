/* Logs in to the remote servers at the given URLs with callbacks, some of which fail; users of the second have a
   device. */

#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>

#include "browser.h"

static mcpm_error *error = NULL;
static const char *target, *device_target;

/* Counters of the callbacks, which any thread may change. */
struct user {
    atomic_int shown, asked, freed;
};

/* Follows the redirect, as a browser does. */
static void follow(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    struct user *user = user_data;
    user->shown++;
    CHECK(answer != NULL && mcpm_login_prompt_has_redirect(login) && mcpm_login_prompt_open_browser(login));
    CHECK(strcmp(mcpm_login_prompt_server(login), "127.0.0.1") == 0);
    CHECK(mcpm_login_prompt_device_url(login) == NULL && mcpm_login_prompt_device_code(login) == NULL);
    CHECK(mcpm_login_prompt_timeout(login) == 30000);
    /* Functions that block must not be called here. */
    CHECK(mcpm_shutdown(NULL) == MCPM_STATUS_NOT_HERE);
    follow_redirect(mcpm_login_prompt_url(login));
}

static void show_device(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    struct user *user = user_data;
    user->shown++;
    CHECK(answer != NULL && !mcpm_login_prompt_has_redirect(login));
    CHECK(strstr(mcpm_login_prompt_device_url(login), "/enter") != NULL);
    CHECK(strcmp(mcpm_login_prompt_device_code(login), "WDJB-MJHT") == 0);
}

static void show(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    struct user *user = user_data;
    user->shown++;
    CHECK(login != NULL && answer != NULL);
}

static void paste(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    char location[4096] = "https://elsewhere.example/?code=x";
    struct user *user = user_data;
    if (user->asked++ > 0) {
        get(mcpm_login_prompt_url(login), location, sizeof location);
    }
    mcpm_prompt_answer_text(answer, location);
}

static void fail(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    char message[8192];
    (void)user_data;
    snprintf(message, sizeof message, "no display for %s", mcpm_login_prompt_url(login));
    mcpm_prompt_answer_fail(answer, message);
}

static void answer_badly(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    (void)user_data, (void)login;
    mcpm_prompt_answer_text(answer, "\xff");
}

static void cancel(void *user_data, const mcpm_login_prompt *login, mcpm_prompt_answer *answer)
{
    (void)user_data, (void)login;
    mcpm_prompt_answer_cancel(answer);
}

static void count_free(void *user_data)
{
    struct user *user = user_data;
    user->freed++;
}

static void tell_password(void *user_data, const char *question, mcpm_prompt_answer *answer)
{
    char password[] = "a password";
    struct user *user = user_data;
    CHECK(strstr(question, "assword") != NULL);
    user->asked++;
    mcpm_prompt_answer_text(answer, password);
    /* The text was copied. */
    memset(password, 'x', sizeof password - 1);
}

static mcpm_proxy_builder *builder(mcpm_ask_login show_login, mcpm_ask_login ask_redirect, struct user *user)
{
    mcpm_proxy_builder *made = mcpm_proxy_builder_new();
    mcpm_proxy_builder_server_name(made, "remote");
    mcpm_proxy_builder_target_uri(made, target);
    mcpm_proxy_builder_remote_auth(made, true);
    mcpm_proxy_builder_remote_auth_callback_port(made, 0);
    mcpm_user_prompt *prompt = mcpm_user_prompt_new(user, count_free);
    mcpm_user_prompt_show_login(prompt, show_login);
    mcpm_user_prompt_ask_redirect(prompt, ask_redirect);
    mcpm_proxy_builder_user_prompt(made, prompt);
    mcpm_user_prompt_free(prompt);
    CHECK(user->freed == 0);
    return made;
}

static void null_is_told(void)
{
    mcpm_proxy *proxy = NULL;
    mcpm_proxy_builder *options = mcpm_proxy_builder_new();
    mcpm_proxy_builder_user_prompt(options, NULL);
    REFUSED(mcpm_proxy_start(options, &proxy, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_proxy_builder_free(options);
    mcpm_workload_builder_user_prompt(NULL, NULL);
    mcpm_user_prompt_free(NULL);
    mcpm_user_prompt_ask_secret(NULL, NULL);
    mcpm_user_prompt_ask_text(NULL, NULL);
    mcpm_prompt_answer_text(NULL, "");
    mcpm_prompt_answer_fail(NULL, NULL);
    mcpm_prompt_answer_cancel(NULL);
    CHECK(mcpm_login_prompt_url(NULL) == NULL && mcpm_login_prompt_timeout(NULL) == 0);
    CHECK(!mcpm_login_prompt_has_redirect(NULL) && !mcpm_login_prompt_open_browser(NULL));
}

static void failures_are_told(void)
{
    mcpm_proxy *proxy = NULL;
    struct {
        mcpm_ask_login show_login, ask_redirect;
        mcpm_status status;
        struct user user;
    } cases[] = {
        {NULL, paste, MCPM_STATUS_LOGIN_REQUIRED, {0}},
        {fail, paste, MCPM_STATUS_IO, {0}},
        {show, answer_badly, MCPM_STATUS_IO, {0}},
        {show, cancel, MCPM_STATUS_INTERRUPTED, {0}},
    };
    size_t many = sizeof cases / sizeof *cases;
    for (size_t number = 0; number < many; number++) {
        struct user *user = &cases[number].user;
        mcpm_proxy_builder *options = builder(cases[number].show_login, cases[number].ask_redirect, user);
        REFUSED(mcpm_proxy_start(options, &proxy, &error), cases[number].status);
        mcpm_proxy_builder_free(options);
        CHECK(proxy == NULL && user->shown == (cases[number].show_login == show) && user->asked == 0);
    }
    DONE(mcpm_shutdown(&error));
    for (size_t number = 0; number < many; number++) {
        CHECK(cases[number].user.freed == 1);
    }
}

static void a_redirect_is_pasted(void)
{
    struct user user = {0};
    mcpm_proxy *proxy = NULL;
    mcpm_proxy_builder *options = builder(show, paste, &user);
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);
    CHECK(user.shown == 1 && user.asked == 2);
    mcpm_proxy_free(proxy);
    DONE(mcpm_shutdown(&error));
    CHECK(user.freed == 1);
}

static void a_device_is_used(void)
{
    struct user user = {0};
    mcpm_proxy *proxy = NULL;
    mcpm_proxy_builder *options = builder(show_device, NULL, &user);
    mcpm_proxy_builder_target_uri(options, device_target);
    DONE(mcpm_proxy_start(options, &proxy, &error));
    mcpm_proxy_builder_free(options);
    CHECK(user.shown == 1);
    mcpm_proxy_free(proxy);
    DONE(mcpm_shutdown(&error));
    CHECK(user.freed == 1);
}

static void a_login_of_a_workload_is_kept(void)
{
    struct user user = {0};
    mcpm_workload *workload = NULL;
    mcpm_user_prompt *prompt = mcpm_user_prompt_new(&user, count_free);
    mcpm_user_prompt_show_login(prompt, follow);
    mcpm_user_prompt_ask_secret(prompt, tell_password);
    mcpm_workload_builder *options = mcpm_workload_builder_new();
    mcpm_workload_builder_server(options, target);
    mcpm_workload_builder_name(options, "remote");
    mcpm_workload_builder_remote_auth_callback_port(options, 0);
    mcpm_workload_builder_user_prompt(options, prompt);
    DONE(mcpm_workload_start(options, &workload, &error));
    mcpm_workload_builder_free(options);
    /* A new password of the secret store is prompted for twice. */
    CHECK(user.shown == 1 && user.asked == 2);
    printf("%s %s\n", mcpm_workload_name(workload), mcpm_workload_url(workload));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    mcpm_workload_free(workload);
    DONE(mcpm_shutdown(&error));
    CHECK(user.freed == 0);
    mcpm_user_prompt_free(prompt);
    CHECK(user.freed == 1);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    target = arguments[1];
    device_target = arguments[2];
    null_is_told();
    failures_are_told();
    a_redirect_is_pasted();
    a_device_is_used();
    a_login_of_a_workload_is_kept();
    return 0;
}
