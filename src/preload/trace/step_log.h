/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs the program's marks of steps (event `steps`), up to 64 marks in a line. Only a process that
 * shares its slots, because it uses a GPU, logs them.
 *
 * No function here allocates, waits or changes errno. Any thread, in a signal handler, in a forked
 * child.
 */
#ifndef GF_PRELOAD_TRACE_STEP_LOG_H
#define GF_PRELOAD_TRACE_STEP_LOG_H

#include "base/base.h"

/* Adds a mark. ns: its time on CLOCK_MONOTONIC. No effect without a log. */
void gf_step_log_add(uint64_t step, uint64_t ns);

/* Logs the remaining marks. Called near the end of the process, but not in a child of vfork. */
void gf_step_log_flush(void);

#endif
