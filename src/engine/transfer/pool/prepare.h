/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that copies leave to the library's own thread: starting helper threads, and mapping memory
 * for a ring. On the copying thread, this work would take a sixth of the time of a process's first
 * copy. It makes no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_PREPARE_H
#define GF_ENGINE_TRANSFER_POOL_PREPARE_H

#include "engine/transfer/pool/pool.h"
#include "engine/transfer/setup/tuning.h"

enum gf_when {
    gf_when_now,
    /*
     * The work starts after the driver's call for the copy, because work and call would contend for
     * memory and locks.
     */
    gf_when_after_call,
};

/* When the work for a copy of `bytes` bytes begins, if the copy finds nothing prepared. */
static inline enum gf_when gf_when_for(size_t bytes)
{
    return bytes < GF_TUNE_PREPARE_NOW ? gf_when_after_call : gf_when_now;
}

/*
 * Requests the work from the library's own thread, now or at the next gf_prepare_deferred. Returns
 * false if there is no such thread; then the caller does the work itself. Any thread; never waits.
 */
bool gf_prepare_request(enum gf_when when);

/* Sends a deferred request. Called when a call of the driver has ended. Any thread. */
void gf_prepare_deferred(void);

/* Requests the helpers of a pool. Later calls do nothing. Any thread; never waits. */
void gf_prepare_helpers(struct gf_pool *pool, enum gf_when when);

/*
 * Starts the helpers that were requested, and reports a failure. Called on the library's own thread
 * only.
 */
void gf_prepare_pools(void);

#endif
