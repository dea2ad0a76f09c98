/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the heap must purge the freed pages that it retains, or free them lazily. Pure: decides from
 * readings, so that tests can supply any readings.
 */
#ifndef GF_ENGINE_PLACE_RECLAIM_POLICY_H
#define GF_ENGINE_PLACE_RECLAIM_POLICY_H

#include "os/headroom.h"
#include "os/pressure.h"

/* Less retained memory than this is ignored. */
#define GF_RECLAIM_LITTLE (UINT64_C(32) << 20)

struct gf_reclaim_reading {
    uint64_t now_ns;
    uint64_t retained; /* an upper bound in bytes; includes lazily freed pages */
    uint64_t dirty;    /* an upper bound of the part that the kernel cannot reclaim */
    /* The program freed nothing, and the heap freed nothing lazily, since the last reading. */
    bool idle;
    struct gf_headroom headroom;
    struct gf_pressure pressure;
};

enum gf_reclaim_step { gf_reclaim_nothing, gf_reclaim_free_lazily, gf_reclaim_purge };

struct gf_reclaim {
    struct gf_reclaim_reading last;
    uint64_t idle_since_ns; /* since when the program is idle; 0 if it is busy */
    uint64_t purged_ns;     /* time of the last purge; 0 if nothing was purged yet */
};

/* Processes a reading; returns the step that the caller must take now. */
enum gf_reclaim_step gf_reclaim_feed(struct gf_reclaim *reclaim,
                                     const struct gf_reclaim_reading *reading);

/* Called instead if the caller took no reading, because little memory is retained. */
void gf_reclaim_rest(struct gf_reclaim *reclaim);

/* Nanoseconds until the next reading is due; UINT64_MAX if there is nothing to purge. */
uint64_t gf_reclaim_wait(const struct gf_reclaim *reclaim);

#endif
