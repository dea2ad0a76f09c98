/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of helper threads. The helpers of one NUMA node do pieces of callers' jobs: they copy, and
 * touch pages.
 *
 * Helpers visit all open jobs in turn. A caller can always do every unclaimed piece itself, so no
 * job depends on a helper being started, awake or scheduled. A caller waits only for pieces that a
 * helper has begun.
 *
 * Helpers are named "gpufeed-copy". They block every signal, run on the node's CPUs, make no CUDA
 * call, and sleep while no job is open. They run SCHED_OTHER unless GPUFEED_HELPER_PRIORITY says
 * otherwise. They never end and are never joined. No lock of the pool is held during a piece of
 * work.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_POOL_H
#define GF_ENGINE_TRANSFER_POOL_POOL_H

#include "base/cpus.h"
#include "config/options.h"
#include "engine/transfer/pool/job.h"

struct gf_pool;

struct gf_pool_size {
    /* Threads including the caller; 0: the fastest number within quota and rank_cpus. */
    unsigned threads;
    double quota;       /* CPU quota in CPUs; 0: no quota */
    unsigned rank_cpus; /* CPUs of this rank, if ranks share the CPUs; else 0 */
    enum gf_helper_priority priority;
};

/*
 * The pool of a node, whose helpers use these CPUs. Pools of unknown nodes (-1) differ by their
 * CPUs. The first call creates the pool without threads; it is never freed. NULL: out of memory.
 * Any thread.
 */
struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, const struct gf_pool_size *size);

/*
 * Keeps all helpers within the CPUs that threads of the program may use now. If the program has
 * given up all CPUs of a pool, its helpers move to the program's other CPUs. One thread calls this.
 */
void gf_pools_follow(const struct gf_cpus *program);

/*
 * Threads that can work on a job, the caller included. Fewer may have been started. Changes with
 * the program's CPUs (gf_pools_follow).
 */
unsigned gf_pool_threads(const struct gf_pool *pool);

/*
 * Starts the helpers, once, and does not wait for them. Returns 0, or an errno if the first helper
 * cannot be started. Called on the library's own thread only, for two reasons. Starting a thread
 * allocates, so each starting thread would get an arena of the heap, and each arena slows down
 * forks. And a thread that the library's thread starts counts as the library's.
 */
int gf_pool_start(struct gf_pool *pool);
/* Whether the first helper could not be started; gf_pool_start does not try again. */
bool gf_pool_has_failed(const struct gf_pool *pool);

/*
 * Requests gf_pool_start. True: this is the first request, and the caller must arrange a call of
 * gf_pools_start_requested.
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
 * Ends a job: allows no further piece, and waits for pieces under way. Returns the first piece that
 * failed, or GF_PIECE_NONE.
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
