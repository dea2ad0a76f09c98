/* SPDX-License-Identifier: Apache-2.0 */
/* A stall as a line of the log. */
#ifndef GF_OBSERVE_STALL_LINE_H
#define GF_OBSERVE_STALL_LINE_H

#include "observe/cause.h"

struct gf_stall_line {
    const char *call;
    const struct gf_evidence *evidence;
    const struct gf_finding *finding;
};

/* On the thread that stalled. */
void gf_stall_log(const struct gf_stall_line *stall);

#endif
