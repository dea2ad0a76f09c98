/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What copies need and need not do themselves: helpers that are born, memory for a ring that is looked
 * for and mapped. A process's first copy would pay a sixth of its time for it. No CUDA call is made
 * in here, and no ring changes its size.
 */
#ifndef GF_TRANSFER_PREPARE_H
#define GF_TRANSFER_PREPARE_H

#include "transfer/pool.h"

struct gf_ring;

/* Any thread, inside a call of the program's; nothing is waited for. */
void gf_prepare_helpers(struct gf_pool *pool);
void gf_prepare_ring(struct gf_ring *ring);

/* All that was asked for. The library's own thread. */
void gf_prepare(void);

#endif
