/* SPDX-License-Identifier: Apache-2.0 */
/* Formats a stall as a line of the log (docs/log.md). */
#ifndef GF_PRELOAD_TRACE_STALL_LINE_H
#define GF_PRELOAD_TRACE_STALL_LINE_H

#include "preload/trace/cause.h"

struct gf_stall_line {
    const char *call;
    const struct gf_evidence *evidence;
    const struct gf_finding *finding;
    uint64_t step; /* number of the current step; 0 if unknown */
};

/*
 * Called on the thread that stalled, because it records the calling thread's name, CPU and stack.
 * False if there is no log,
 * or if the line was dropped. Keeps errno.
 */
bool gf_stall_log(const struct gf_stall_line *stall);

#endif
