/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the heap must return all freed memory that it keeps. The decision depends only on
 * readings, so tests can supply any readings.
 */
#pragma once

#include "os/headroom.h"
#include "os/pressure.h"

/* If the heap keeps less memory than this, it is ignored. */
#define GF_RECLAIM_LITTLE (UINT64_C(32) << 20)

struct gf_reclaim_reading {
    uint64_t now_ns;
    uint64_t kept; /* upper bound of the bytes that the heap keeps */
    struct gf_headroom headroom;
    struct gf_pressure pressure;
};

struct gf_reclaim {
    struct gf_reclaim_reading last;
    uint64_t purged_ns; /* time of the last purge; 0 if nothing was purged yet */
};

/* Processes a reading. Returns true if the caller must purge now. */
bool gf_reclaim_feed(struct gf_reclaim *reclaim, const struct gf_reclaim_reading *reading);

/* Called instead of gf_reclaim_feed if the heap keeps little memory, so nothing was read. */
void gf_reclaim_rest(struct gf_reclaim *reclaim);
