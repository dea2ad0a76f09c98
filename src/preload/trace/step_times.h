/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durations of steps. Without marks, a step is the period of a repeated event: a copy of one
 * size to the GPU, a launch of one graph, or a wait for the GPU by one function. Any thread; no function allocates or
 * waits. If two threads record an event at the same time, one event may be lost.
 */
#ifndef GF_PRELOAD_TRACE_STEP_TIMES_H
#define GF_PRELOAD_TRACE_STEP_TIMES_H

#include "abi/trace_api.h"

/* Records a mark. ends: a step ends; begins: a step begins. */
void gf_step_times_mark(uint64_t now, bool ends, bool begins);
/* Records a copy of at least 256 KiB from host memory to the GPU. */
void gf_step_times_copy(uint64_t now, size_t bytes);
/* Records the end of a timed wait. name: the function, a constant. */
void gf_step_times_wait(uint64_t now, const char *name);
/* Records a launch of a graph. ns: when it was launched, approximately. */
void gf_step_times_graph(uint64_t ns, uint64_t graph);
/*
 * Adds a stall of this process to the facts of the present step. May be called inside malloc and in
 * a forked child.
 */
void gf_step_times_stall(enum gf_cause cause, uint64_t ns);
/*
 * Takes the engine's sums of facts until `now` (engine/gputime/step_facts.h). They never decrease.
 * Called on the sampler's thread.
 */
void gf_step_times_publish(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS]);

/* source is gf_step_none if no event repeats evenly enough. */
void gf_step_times_read(struct gf_step_times *ret);

#endif
