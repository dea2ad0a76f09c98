/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/cpus.h"

/*
 * The starvation guard. It decides from readings when to widen the mask: when bound threads wait
 * for a CPU while CPUs outside the mask are idle. It has no side effects, so tests can supply any
 * readings.
 */

struct gf_guard_reading {
    uint64_t now_ns;
    /*
     * CPU time, since the first reading, of the threads of this process and of those threads of
     * child processes that have the bound mask.
     */
    uint64_t run_ns;
    uint64_t delay_ns;     /* run-queue delay of these threads, from schedstat */
    uint64_t throttled_ns; /* total time in which the CPU quota throttled the cgroup */
    /* Total idle time and number of the CPUs that each step would add to the mask. */
    uint64_t socket_idle_ns, start_idle_ns;
    unsigned socket_cpus, start_cpus;
};

enum gf_guard_step { gf_guard_stay, gf_guard_to_socket, gf_guard_to_start };

struct gf_guard {
    struct gf_guard_reading last;
    uint64_t starving_since; /* time since which the threads starve; 0: they do not */
    enum gf_guard_step done;
};

/*
 * Processes a reading. Called about once per second. Returns the step that the caller must take
 * now.
 */
enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading);

/*
 * Sums by how much the CPU time and run-queue delay of threads increased between readings, while
 * threads start and end.
 */

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

/*
 * Takes a reading of this process and this machine. Before the first call, all bytes of *past are
 * zero. If a step of widening would remove CPUs from the mask, ret has 0 CPUs for this step.
 * Allocates nothing and keeps errno. Takes about 6 us for each thread, and 60 us for the machine.
 */
void gf_guard_read(struct gf_guard_deltas *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret);
