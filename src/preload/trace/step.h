/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that the program marks. Any thread may call these functions; they neither allocate nor
 * wait. If several threads mark steps at the same time, the counts may miss some steps.
 */
#ifndef GF_PRELOAD_TRACE_STEP_H
#define GF_PRELOAD_TRACE_STEP_H

#include "abi/trace_api.h"

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

#endif
