/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs the program's marks of steps (event `steps`), up to 64 marks in a line. Only a process that
 * uses a GPU, and so shares its slots with its children (journal.h), logs marks.
 *
 * No function here allocates, waits or changes errno. The functions may be called on any thread,
 * also in a signal handler and in a forked child.
 */
#ifndef GF_PRELOAD_TRACE_STEP_LOG_H
#define GF_PRELOAD_TRACE_STEP_LOG_H

#include "base/base.h"

/* Adds a mark. ns: the time of the mark on CLOCK_MONOTONIC. Has no effect without a log. */
void gf_step_log_add(uint64_t step, uint64_t ns);

/*
 * Logs the marks that are not logged yet. Called near the end of the process, but not in a child of
 * vfork.
 */
void gf_step_log_flush(void);

#endif
