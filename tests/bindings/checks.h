/* Shared by the C programs: checks of conditions and of the library's results. */

#ifndef CHECKS_H
#define CHECKS_H

#include <stdio.h>
#include <stdlib.h>

#include "mcpm.h"

#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)

static inline void check(int holds, const char *what, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
        exit(1);
    }
}

/* Checks a status, prints the message that came with it and frees it. */
#define REFUSED(call, wanted) refused(call, wanted, &error, #call, __FILE__, __LINE__)

static inline void refused(mcpm_status status, mcpm_status wanted, mcpm_error **error, const char *what, const char *file,
                    int line)
{
    if (status != wanted || mcpm_error_status(*error) != wanted) {
        fprintf(stderr, "%s:%d: %s: %d %s\n", file, line, what, (int)status, mcpm_error_message(*error));
        exit(1);
    }
    printf("%d %s\n", (int)status, mcpm_error_message(*error));
    mcpm_error_free(*error);
    *error = NULL;
}

/* Checks that a call succeeded. */
#define DONE(call) done(call, &error, #call, __FILE__, __LINE__)

static inline void done(mcpm_status status, mcpm_error *const *error, const char *what, const char *file, int line)
{
    if (status != MCPM_STATUS_OK || *error != NULL) {
        fprintf(stderr, "%s:%d: %s: %d %s\n", file, line, what, (int)status, mcpm_error_message(*error));
        exit(1);
    }
}

#endif
