/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/trace_api.h"
#include "base/base.h"

/*
 * Logs the program's marks of steps (event `steps`), up to 64 marks in a line. Only a process that
 * uses a GPU, and so shares its slots with its children (journal.h), logs marks.
 *
 * No function here allocates, waits or changes errno. The functions may be called on any thread,
 * also in a signal handler and in a forked child.
 */

/* Adds a mark. ns: the time of the mark on CLOCK_MONOTONIC. Has no effect without a log. */
void gf_step_log_add(uint64_t step, uint64_t ns);

/*
 * Logs the marks that are not logged yet. Called near the end of the process, but not in a child of
 * vfork.
 */
void gf_step_log_flush(void);

/*
 * The steps that the program marks. Any thread may call these functions; they neither allocate nor
 * wait. If several threads mark steps at the same time, the counts may miss some steps.
 */

/*
 * Ends the current step, and starts the step `number`. With 0, no new step starts. A call with the
 * number of the current step has no effect.
 */
void gf_step_mark(uint64_t number);

/* Returns the number of the current step; 0 if there is none. */
uint64_t gf_step_current(void);

/*
 * Counts the steps until now. In a forked child, the counts include the parent's steps before the
 * fork.
 */
void gf_step_count(struct gf_step_count *ret);
