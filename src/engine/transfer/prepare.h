/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that copies leave to the library's own thread: starting helper threads, and mapping
 * memory for a ring. On the copying thread, this work would take a sixth of the time of a process's
 * first copy. The work contains no CUDA call.
 */
#pragma once

#include "engine/transfer/pool.h"
#include "engine/transfer/tuning.h"

enum gf_when {
    gf_when_now,
    /*
     * The work starts after the driver's call for the copy, because at the same time both would
     * contend for memory and locks.
     */
    gf_when_after_call,
};

/* When the work begins if a copy of `bytes` bytes finds nothing prepared. */
static inline enum gf_when gf_when_for(size_t bytes)
{
    return bytes < GF_TUNE_PREPARE_NOW ? gf_when_after_call : gf_when_now;
}

/*
 * Requests the work from the library's own thread, now or at the next gf_prepare_deferred. Returns
 * false if the library has no own thread; then the caller does the work itself. May be called on
 * any thread; never waits.
 */
bool gf_prepare_request(enum gf_when when);

/*
 * Sends a deferred request, if there is one. Called on any thread when a call of the driver has
 * ended.
 */
void gf_prepare_deferred(void);

/*
 * Requests that the helpers of a pool be started. Further calls for the same pool do nothing. May
 * be called on any thread; never waits.
 */
void gf_prepare_helpers(struct gf_pool *pool, enum gf_when when);

/*
 * Starts the helpers that were requested, and reports a failure. Called on the library's own thread
 * only.
 */
void gf_prepare_pools(void);
