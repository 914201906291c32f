/* Collects the options of a workload and tells what is wrong with them. */

#include <stdio.h>

#include "mcpm.h"

int main(int count, char **arguments)
{
    mcpm_workload_builder *builder = mcpm_workload_builder_new();
    mcpm_workload_builder_server(builder, "ghcr.io/example/server:1");
    mcpm_workload_builder_proxy_port(builder, 8080);
    mcpm_workload_builder_foreground(builder, true);
    mcpm_workload_builder_env(builder, "LEVEL=1");

    /* Any option by its name, as on a command line: NAME VALUE ... */
    for (int place = 1; place + 1 < count; place += 2) {
        mcpm_workload_builder_set(builder, arguments[place], arguments[place + 1]);
    }

    mcpm_error *error = NULL;
    mcpm_status status = mcpm_workload_builder_check(builder, &error);
    mcpm_workload_builder_free(builder);
    if (status != MCPM_STATUS_OK) {
        printf("%d: %s\n", (int)status, mcpm_error_message(error));
        mcpm_error_free(error);
        return 1;
    }
    puts("the options are fine");
    return 0;
}
