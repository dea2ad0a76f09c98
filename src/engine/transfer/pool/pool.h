/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of helper threads. The helpers of one NUMA node do pieces of callers' jobs: they copy, and
 * touch pages.
 *
 * Helpers visit all open jobs in turn. A caller can always do every unclaimed piece itself, so no
 * job depends on a helper being started, awake or scheduled. A caller waits only for pieces that a
 * helper has begun.
 *
 * Helpers are named "gpufeed-copy". They block every signal, run SCHED_OTHER on the node's CPUs,
 * make no CUDA call, and sleep while no job is open. They never end and are never joined. No lock of
 * the pool is held while a piece is worked on.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_POOL_H
#define GF_ENGINE_TRANSFER_POOL_POOL_H

#include "base/cpus.h"
#include "engine/transfer/pool/job.h"

struct gf_pool;

/*
 * The pool of a node, whose helpers use these CPUs. Pools of unknown nodes (-1) differ by their
 * CPUs. The first call creates the pool without threads; it is never freed. `threads` includes the
 * caller. 0 selects the number that is fastest on these CPUs under that quota (in CPUs; 0: no
 * quota). NULL: out of memory. Any thread.
 */
struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, unsigned threads, double quota);

/*
 * Keeps all helpers within the CPUs that threads of the program may use now. A pool whose CPUs the
 * program has all given up moves to the others. One thread calls this.
 */
void gf_pools_follow(const struct gf_cpus *program);

/*
 * Threads that can work on a job, the caller included. Fewer may have been started. Changes with
 * the program's CPUs (gf_pools_follow).
 */
unsigned gf_pool_threads(const struct gf_pool *pool);

/*
 * Starts the helpers, once, and does not wait for them. Returns 0 or the errno of the first. The
 * library's own thread starts them all: a thread that starts another one allocates, and so gets an
 * arena of the heap, which makes each fork of the process slower. Threads that it starts are also
 * counted as threads of the library.
 */
int gf_pool_start(struct gf_pool *pool);
/* Whether starting the first helper failed. It is not tried again. */
bool gf_pool_has_failed(const struct gf_pool *pool);

/*
 * Requests that start. True: this is the first request, and gf_pools_start_requested must be
 * called.
 */
bool gf_pool_request(struct gf_pool *pool);
/* Starts the helpers of all pools that were requested. Returns 0 or an errno. */
int gf_pools_start_requested(void);

/*
 * Opens a job. Its pieces below `limit` may be claimed. The job stays at its address until it is
 * closed. Helpers are woken even if no piece may be claimed yet, because waking up takes longer
 * than a chunk's DMA.
 */
void gf_pool_open(struct gf_pool *pool, struct gf_job *job, uint64_t limit);

/* Raises the limit. Called by the owner only. */
void gf_pool_raise(struct gf_pool *pool, struct gf_job *job, uint64_t limit);

/*
 * Ends a job: no further piece is begun, and pieces under way are waited for. Returns the first
 * piece that failed, or GF_PIECE_NONE.
 */
uint64_t gf_pool_close(struct gf_pool *pool, struct gf_job *job);

/* Does all pieces of a job, by the caller and the helpers. Returns the same as gf_pool_close. */
uint64_t gf_pool_run(struct gf_pool *pool, struct gf_job *job, uint64_t pieces);

/* The first pool that has at least `helpers` helpers; NULL if there is no such pool. */
struct gf_pool *gf_pool_with_helpers(unsigned helpers);

/* Helpers that run, and open jobs. Other threads change both at any time. */
unsigned gf_pool_helpers(const struct gf_pool *pool);
unsigned gf_pool_jobs(const struct gf_pool *pool);

#endif
