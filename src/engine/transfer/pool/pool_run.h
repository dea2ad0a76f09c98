/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of which the owner does no piece, because only helpers can. */
#ifndef GF_ENGINE_TRANSFER_POOL_POOL_RUN_H
#define GF_ENGINE_TRANSFER_POOL_POOL_RUN_H

#include "base/base.h"

struct gf_job;
struct gf_pool;

/*
 * Like gf_pool_run, but the caller does no piece. It waits at most `patience_ns` until a helper has
 * claimed the first piece, and then until all pieces are done. Returns the first piece that failed or
 * was not done, or GF_PIECE_NONE. work() must call gf_job_notify at its end.
 */
uint64_t gf_pool_run_by_helpers(struct gf_pool *pool, struct gf_job *job, uint64_t pieces,
                                uint64_t patience_ns);

#endif
