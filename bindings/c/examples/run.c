/* Runs an image as a workload until the end of the input: run IMAGE [OPTION VALUE]... */

#include <stdio.h>

#include "mcpm.h"

static int failed(mcpm_status status, mcpm_error *error)
{
    fprintf(stderr, "%d: %s\n", (int)status, mcpm_error_message(error));
    mcpm_error_free(error);
    return 1;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fputs("usage: run IMAGE [OPTION VALUE]...\n", stderr);
        return 2;
    }
    mcpm_workload_builder *builder = mcpm_workload_builder_new();
    mcpm_workload_builder_server(builder, arguments[1]);
    /* Any option by its name, as on a command line. */
    for (int place = 2; place + 1 < count; place += 2) {
        mcpm_workload_builder_set(builder, arguments[place], arguments[place + 1]);
    }

    mcpm_error *error = NULL;
    mcpm_workload *workload = NULL;
    mcpm_status status = mcpm_workload_start(builder, &workload, &error);
    mcpm_workload_builder_free(builder);
    if (status == MCPM_STATUS_OK) {
        printf("%s %s\n", mcpm_workload_name(workload), mcpm_workload_url(workload));
        fflush(stdout);
        while (getchar() != EOF) {
        }
        status = mcpm_workload_stop(workload, 10, &error);
        mcpm_workload_free(workload);
    }
    int code = status == MCPM_STATUS_OK ? 0 : failed(status, error);
    status = mcpm_shutdown(&error);
    return status == MCPM_STATUS_OK ? code : failed(status, error);
}
