/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durations of steps. Without marks, a step is the period of a repeated event: a copy of one
 * size to the GPU, or a wait for the GPU by one function. Any thread; no function allocates or
 * waits. If two threads record an event at the same time, one event may be lost.
 */
#ifndef GF_PRELOAD_TRACE_STEP_TIMES_H
#define GF_PRELOAD_TRACE_STEP_TIMES_H

#include "abi/step_api.h"

/* Records a mark. ends: a step ends; begins: a step begins. */
void gf_step_times_mark(uint64_t now, bool ends, bool begins);
/* Records a copy of at least 256 KiB from host memory to the GPU. */
void gf_step_times_copy(uint64_t now, size_t bytes);
/* Records the end of a timed wait. name: the function, a constant. */
void gf_step_times_wait(uint64_t now, const char *name);

/* source is gf_step_none if no event repeats evenly enough. */
void gf_step_times_read(struct gf_step_times *ret);

#endif
