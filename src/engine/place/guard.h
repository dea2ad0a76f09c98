/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starvation guard. It decides from readings when to widen the mask: when bound threads wait
 * for a CPU while CPUs outside the mask are idle. It has no side effects, so tests can supply any
 * readings.
 */
#ifndef GF_ENGINE_PLACE_GUARD_H
#define GF_ENGINE_PLACE_GUARD_H

#include "base/cpus.h"

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

#endif
