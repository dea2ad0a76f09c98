/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's marks of its steps in the log (event `steps`). A process that shares its slots, that is
 * one that uses a GPU, logs them; one line holds up to 64 marks.
 *
 * Nothing here allocates, waits or changes errno. Any thread, in a signal handler, in a forked child.
 */
#ifndef GF_PRELOAD_TRACE_STEP_LOG_H
#define GF_PRELOAD_TRACE_STEP_LOG_H

#include "base/base.h"

/* Adds a mark. ns: its time on CLOCK_MONOTONIC. Does nothing without a log. */
void gf_step_log_add(uint64_t step, uint64_t ns);

/* Logs the marks that no line has yet. Called near the end of the process; not in a child of vfork. */
void gf_step_log_flush(void);

#endif
