/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies need and need not do themselves: helpers that are born, memory for a ring that is looked
 * for and mapped. A process's first copy would pay a sixth of its time for it. No CUDA call is made
 * in here, and no ring changes its size.
 */
#ifndef GF_TRANSFER_PREPARE_H
#define GF_TRANSFER_PREPARE_H

#include "transfer/pool.h"
#include "transfer/tuning.h"

struct gf_ring;

enum gf_when {
    gf_when_now,
    gf_when_behind, /* behind the driver's call for the copy that wants it, which would share memory and locks with it */
};

/* For a copy of so many bytes, which finds nothing prepared. */
static inline enum gf_when gf_when_for(size_t bytes)
{
    return bytes < GF_TUNE_BEHIND ? gf_when_behind : gf_when_now;
}

/* Any thread, inside a call of the program's; nothing is waited for. */
void gf_prepare_helpers(struct gf_pool *pool, enum gf_when when);
void gf_prepare_ring(struct gf_ring *ring, enum gf_when when);
/* What was to begin behind a call may begin. */
void gf_prepare_behind(void);

/* All that was asked for. The library's own thread. */
void gf_prepare(void);

#endif
