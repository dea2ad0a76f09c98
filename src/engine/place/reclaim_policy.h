/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the heap must purge the freed pages that it retains, or free them lazily. The
 * decision depends only on readings, so tests can supply any readings.
 */
#ifndef GF_ENGINE_PLACE_RECLAIM_POLICY_H
#define GF_ENGINE_PLACE_RECLAIM_POLICY_H

#include "os/headroom.h"
#include "os/pressure.h"

/* If the heap retains less memory than this, it is ignored. */
#define GF_RECLAIM_LITTLE (UINT64_C(32) << 20)

struct gf_reclaim_reading {
    uint64_t now_ns;
    /* Upper bound of the bytes that the heap retains, including lazily freed pages. */
    uint64_t retained;
    uint64_t dirty; /* upper bound of those retained bytes that the kernel cannot reclaim */
    /*
     * True if the program freed nothing, and the heap freed nothing lazily, since the last reading.
     */
    bool idle;
    struct gf_headroom headroom;
    struct gf_pressure pressure;
};

enum gf_reclaim_step { gf_reclaim_nothing, gf_reclaim_free_lazily, gf_reclaim_purge };

struct gf_reclaim {
    struct gf_reclaim_reading last;
    uint64_t idle_since_ns; /* time since which the program is idle; 0 if it is busy */
    uint64_t purged_ns;     /* time of the last purge; 0 if nothing was purged yet */
};

/* Processes a reading. Returns the step that the caller must take now. */
enum gf_reclaim_step gf_reclaim_feed(struct gf_reclaim *reclaim,
                                     const struct gf_reclaim_reading *reading);

/*
 * Called instead of gf_reclaim_feed if the caller took no reading, because the heap retains little
 * memory.
 */
void gf_reclaim_rest(struct gf_reclaim *reclaim);

/*
 * Returns the number of nanoseconds until the next reading is due; UINT64_MAX if there is nothing
 * to purge.
 */
uint64_t gf_reclaim_wait(const struct gf_reclaim *reclaim);

#endif
