/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by how much the CPU time and run-queue delay of threads increased between readings, while
 * threads start and end.
 */
#ifndef GF_ENGINE_PLACE_GUARD_DELTAS_H
#define GF_ENGINE_PLACE_GUARD_DELTAS_H

#include "base/base.h"

/* Largest number of threads that are tracked; further threads are ignored. */
#define GF_GUARD_TASKS 2048

/*
 * The times of each thread at the last reading. A sum over all threads is not sufficient, because
 * it would fall when a thread ends.
 */
struct gf_guard_deltas {
    struct gf_guard_task {
        int tid; /* thread id; 0 if the slot is free */
        uint64_t run_ns, delay_ns;
        /* One for the last reading and one for the present reading, in turn. */
    } task[2][GF_GUARD_TASKS];
    unsigned turn;
    /* Time of the present reading; time since the last reading (0 at first). */
    uint64_t now_ns, interval_ns;
    uint64_t run_ns, delay_ns; /* sums of all increases so far */
};

/* Begins a reading. Before the first reading, all bytes of *past are zero. */
void gf_guard_deltas_begin(struct gf_guard_deltas *past, uint64_t now_ns);

/*
 * Adds to the sums how much the thread's run time and run-queue delay increased since the last
 * reading. run_ns and delay_ns are the thread's total times. If the function is called twice for a
 * thread in one reading, the second call has no effect.
 */
void gf_guard_deltas_count(struct gf_guard_deltas *past, int tid, uint64_t run_ns,
                           uint64_t delay_ns);

#endif
