/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starvation guard. Decides from readings when to widen the mask: when bound threads wait for a
 * CPU while CPUs outside the mask are idle. Pure, so that tests can supply any readings.
 */
#ifndef GF_ENGINE_PLACE_GUARD_H
#define GF_ENGINE_PLACE_GUARD_H

#include "base/cpus.h"

struct gf_guard_reading {
    uint64_t now_ns;
    /*
     * Times of this process and of the child processes that inherited its mask, since the first
     * reading.
     */
    uint64_t run_ns;
    uint64_t delay_ns;     /* run-queue delay, from schedstat */
    uint64_t throttled_ns; /* time throttled by the cgroup's CPU quota */
    /* Idle time of the CPUs that a step would add, and their number. */
    uint64_t socket_idle_ns, start_idle_ns;
    unsigned socket_cpus, start_cpus;
};

enum gf_guard_step { gf_guard_stay, gf_guard_to_socket, gf_guard_to_start };

struct gf_guard {
    struct gf_guard_reading last;
    uint64_t starving_since; /* since when the threads starve; 0: they do not */
    enum gf_guard_step done;
};

/* Processes a reading, about one per second. Returns the step that the caller must take now. */
enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading);

#endif
