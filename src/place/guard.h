/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starvation guard: notices that bound threads wait for a CPU while CPUs that widening would
 * give them stand idle, and says how far to widen. Fed with readings, so tests feed it made-up ones.
 */
#ifndef GF_PLACE_GUARD_H
#define GF_PLACE_GUARD_H

#include "base/cpus.h"

struct gf_guard_reading {
    uint64_t now_ns;
    /* What the process and the descendants that inherited its mask have added since the first. */
    uint64_t run_ns;
    uint64_t delay_ns;     /* run delay (schedstat) */
    uint64_t throttled_ns; /* cgroup's throttled time */
    /* idle time summed over the CPUs that the step would add, and how many they are */
    uint64_t socket_idle_ns, start_idle_ns;
    unsigned socket_cpus, start_cpus;
};

enum gf_guard_step { gf_guard_stay, gf_guard_to_socket, gf_guard_to_start };

struct gf_guard {
    struct gf_guard_reading last;
    uint64_t starving_since; /* 0: not starving */
    enum gf_guard_step done;
};

/* One reading a second or so. Returns the step to take now; the caller takes it and says so. */
enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading);

#define GF_GUARD_TASKS 2048 /* threads followed at once; more are not counted */

/* What each thread had at the reading before: a sum over threads would fall when one ends. */
struct gf_guard_past {
    struct gf_guard_task {
        int tid; /* 0: free */
        uint64_t run_ns, delay_ns;
    } task[2][GF_GUARD_TASKS]; /* by turns the reading before and this one */
    unsigned turn;
    uint64_t now_ns, interval_ns;  /* of this reading; since the one before, 0 at first */
    uint64_t run_ns, delay_ns;     /* the sums so far */
};

/*
 * Takes a reading of this process; past is all zero at first. Allocates nothing; about 6 us a
 * thread, and 60 for the machine. A step that would take CPUs away is given none to gain.
 */
void gf_guard_read(struct gf_guard_past *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret);

/* gf_guard_read's parts, apart for their test: begins a reading; counts a thread's times of now. */
void gf_guard_turn(struct gf_guard_past *past, uint64_t now_ns);
void gf_guard_count(struct gf_guard_past *past, int tid, uint64_t run_ns, uint64_t delay_ns);

#endif
