/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time and run-queue delay of threads between readings, while threads start and end. */
#ifndef GF_ENGINE_PLACE_GUARD_DELTAS_H
#define GF_ENGINE_PLACE_GUARD_DELTAS_H

#include "base/base.h"

#define GF_GUARD_TASKS 2048 /* at most this many threads are tracked; further ones are ignored */

/*
 * Times of each thread at the last reading. They are kept for each thread, because a plain sum over
 * threads would fall when a thread ends.
 */
struct gf_guard_deltas {
    struct gf_guard_task {
        int tid; /* 0 if the slot is free */
        uint64_t run_ns, delay_ns;
    } task[2][GF_GUARD_TASKS]; /* the last reading and the present one, alternately */
    unsigned turn;
    uint64_t now_ns, interval_ns; /* time of this reading; time since the last one (0 at first) */
    uint64_t run_ns, delay_ns;    /* sums of the increases so far */
};

/* Begins a reading. past is all zero before the first one. */
void gf_guard_deltas_begin(struct gf_guard_deltas *past, uint64_t now_ns);

/* Adds a thread by its times so far. A thread visited twice in a reading counts once. */
void gf_guard_deltas_count(struct gf_guard_deltas *past, int tid, uint64_t run_ns,
                           uint64_t delay_ns);

#endif
