/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's marks of its steps. Any thread may call these functions; none of them allocates or
 * waits. If several threads mark steps at the same time, the counts may miss some.
 */
#ifndef GF_PRELOAD_TRACE_STEP_H
#define GF_PRELOAD_TRACE_STEP_H

#include "abi/step_api.h"

/*
 * Ends the current step, if there is one, and starts the step `number`; 0 starts none. The number
 * of the current step changes nothing.
 */
void gf_step_mark(uint64_t number);

/* The number of the current step; 0 before the first step. */
uint64_t gf_step_current(void);

/* The steps so far. A forked child also counts its parent's. */
void gf_step_count(struct gf_step_count *ret);

#endif
