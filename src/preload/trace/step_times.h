/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/trace_api.h"

/*
 * A series of equal events: their intervals as a histogram, and the longest intervals. The
 * functions allocate nothing. The caller must hold a lock.
 */

#define GF_STEP_PARTS 16u /* buckets for each power of two */
#define GF_STEP_FIRST_POWER 14u
#define GF_STEP_POWERS 28u /* from 16 us to an hour */
#define GF_STEP_BUCKETS (GF_STEP_PARTS * GF_STEP_POWERS)

struct gf_step_series {
    enum gf_step_source source; /* gf_step_none: free */
    uint64_t key;               /* the copy's size, or the address of the function's name */
    uint64_t first_ns, last_ns; /* last_ns 0: no step is open */
    uint64_t count;             /* intervals in the histogram */
    uint32_t bucket[GF_STEP_BUCKETS];
    struct gf_step_facts before; /* the sums at the last event */
    struct gf_step_facts all;    /* the facts of all intervals in the histogram */
    /*
     * Longest first. Until a step is settled, the negated sums before the step stand in place of
     * the engine's facts.
     */
    struct gf_slow_step longest[GF_STEPS_LONGEST];
};

/*
 * Adds an event. known: no event was lost since the last one. Otherwise the interval before this
 * event is not counted, because it would look like a slow step. sums: the facts until now.
 */
void gf_step_series_add(struct gf_step_series *series, uint64_t now, bool known,
                        const struct gf_step_facts *sums);
/* Fills in *ret, except has_facts. False if the intervals are too few or too uneven to be steps. */
bool gf_step_series_read(const struct gf_step_series *series, const struct gf_step_facts *sums,
                         struct gf_step_times *ret);

/*
 * Takes a lock, which contains the id of the process of its holder, or 0. Returns false while another
 * thread of this process holds it, also in a signal handler that interrupted the holder. In a forked
 * child, the holder may be a thread of the parent, which does not exist in the child. So the child
 * takes the lock. pid: of this process. To release the lock, store 0.
 */
bool gf_step_try_lock(_Atomic pid_t *holder, pid_t pid);

/*
 * The durations of steps. Without marks, a step is the period of a repeated event: a copy of one
 * size to the GPU, a launch of one graph, or a wait for the GPU by one function. Any thread; no function allocates or
 * waits. If two threads record an event at the same time, one event may be lost.
 */

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
