/* SPDX-License-Identifier: Apache-2.0 */
/* What edges.c and changed.c share: each case ends with a line "ok", or stops the program. */
#pragma once

#include "program.h"

#include <errno.h>

static inline void need(int true_, const char *what)
{
    if (!true_) {
        printf("%s: failed, errno %d\n", what, errno);
        fflush(stdout);
        _exit(3);
    }
}

static inline void passed(const char *what)
{
    printf("%s ok\n", what);
    fflush(stdout);
}
