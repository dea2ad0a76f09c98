/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that the program marks. Any thread may call these functions; they neither allocate nor
 * wait. If several threads mark steps at the same time, the counts may miss some.
 */
#ifndef GF_PRELOAD_TRACE_STEP_H
#define GF_PRELOAD_TRACE_STEP_H

#include "abi/step_api.h"

/*
 * Ends the current step, and starts the step `number`; 0 starts none. A call with the number of the
 * current step has no effect.
 */
void gf_step_mark(uint64_t number);

/* The number of the current step; 0 before the first step. */
uint64_t gf_step_current(void);

/* The steps so far, in a forked child including its parent's. */
void gf_step_count(struct gf_step_count *ret);

#endif
