/* Runs workloads from the given image; their names begin with the given text. */

#define _POSIX_C_SOURCE 200809L
#include "client.h"

static mcpm_error *error = NULL;
static const char *image;
static char name[128];

static mcpm_workload_builder *builder(const char *prefix, const char *suffix)
{
    mcpm_workload_builder *made = mcpm_workload_builder_new();
    snprintf(name, sizeof name, "%s-%s", prefix, suffix);
    mcpm_workload_builder_server(made, image);
    mcpm_workload_builder_name(made, name);
    mcpm_workload_builder_tools(made, "!test_image_content");
    return made;
}

static mcpm_workload *start(const char *prefix, const char *suffix)
{
    mcpm_workload_builder *options = builder(prefix, suffix);
    mcpm_workload *workload = NULL;
    DONE(mcpm_workload_start(options, &workload, &error));
    mcpm_workload_builder_free(options);
    return workload;
}

static mcpm_phase phase_of(const mcpm_workload *workload)
{
    mcpm_phase phase = MCPM_PHASE_FAILED;
    mcpm_record *status = NULL;
    DONE(mcpm_workload_status(workload, &phase, &status, &error));
    CHECK(mcpm_record_get(status, "reason") == NULL);
    CHECK(strcmp(mcpm_record_get(status, "restarts"), "0") == 0);
    mcpm_record_free(status);
    DONE(mcpm_workload_status(workload, &phase, NULL, &error));
    return phase;
}

static void a_workload_is_used_and_stopped(const char *prefix)
{
    mcpm_workload *workload = start(prefix, "used");
    char url[256];
    snprintf(url, sizeof url, "%s", mcpm_workload_url(workload));
    CHECK(strcmp(mcpm_workload_name(workload), name) == 0);
    CHECK(phase_of(workload) == MCPM_PHASE_RUNNING);
    use(url);

    mcpm_explanation *explanation = NULL;
    DONE(mcpm_explain(refused_call(url, "test_image_content"), &explanation, &error));
    CHECK(strcmp(mcpm_explanation_server(explanation), name) == 0);
    mcpm_explanation_free(explanation);

    mcpm_workload_builder *options = builder(prefix, "used");
    mcpm_workload *second = NULL;
    mcpm_error *taken = NULL;
    CHECK(mcpm_workload_start(options, &second, &taken) == MCPM_STATUS_NAME_TAKEN && second == NULL);
    mcpm_error_free(taken);
    mcpm_workload_builder_free(options);

    DONE(mcpm_workload_stop(workload, 5, &error));
    CHECK(phase_of(workload) == MCPM_PHASE_STOPPED);
    CHECK(post(url, "{}") == 0);
    DONE(mcpm_workload_stop(workload, 5, &error));
    CHECK(strcmp(mcpm_workload_url(workload), url) == 0);
    mcpm_workload_free(workload);
}

static void mistakes_are_told(const char *prefix)
{
    mcpm_workload *workload = NULL;
    mcpm_phase phase;
    mcpm_workload_builder *options = builder(prefix, "missing");
    /* No registry listens at this address, so the image cannot be pulled. */
    mcpm_workload_builder_server(options, "127.0.0.1:1/missing:1");
    mcpm_error *missing = NULL;
    CHECK(mcpm_workload_start(options, &workload, &missing) == MCPM_STATUS_IMAGE_UNAVAILABLE);
    CHECK(strstr(mcpm_error_message(missing), "127.0.0.1:1/missing:1") != NULL);
    mcpm_error_free(missing);
    REFUSED(mcpm_workload_start(options, &workload, &error), MCPM_STATUS_BAD_ARGUMENT);
    mcpm_workload_builder_free(options);

    options = builder(prefix, "bad");
    mcpm_workload_builder_transport(options, "pigeon");
    mcpm_workload_builder_proxy_port(options, 1);
    REFUSED(mcpm_workload_start(options, &workload, &error), MCPM_STATUS_INVALID_OPTION);
    REFUSED(mcpm_workload_start(NULL, &workload, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_workload_start(options, NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_workload_status(NULL, &phase, NULL, &error), MCPM_STATUS_BAD_ARGUMENT);
    REFUSED(mcpm_workload_stop(NULL, 1, &error), MCPM_STATUS_BAD_ARGUMENT);
    CHECK(mcpm_workload_url(NULL) == NULL && mcpm_workload_name(NULL) == NULL);
    mcpm_workload_builder_free(options);
    mcpm_workload_builder_free(NULL);
    mcpm_workload_free(NULL);
    mcpm_string_free(NULL);
    CHECK(workload == NULL);
}

static void what_still_runs_is_ended(const char *prefix)
{
    mcpm_workload_free(start(prefix, "freed"));

    mcpm_workload *left = start(prefix, "left");
    DONE(mcpm_shutdown(&error));
    CHECK(phase_of(left) == MCPM_PHASE_STOPPED);
    CHECK(post(mcpm_workload_url(left), "{}") == 0);
    mcpm_workload_free(left);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    image = arguments[1];
    a_workload_is_used_and_stopped(arguments[2]);
    mistakes_are_told(arguments[2]);
    what_still_runs_is_ended(arguments[2]);
    return 0;
}
