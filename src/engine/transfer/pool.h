/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/cpus.h"
#include "config/options.h"
#include "engine/transfer/pieces.h"

#include <pthread.h>

/*
 * Pools of helper threads, one for each NUMA node. The helpers of a pool do pieces of jobs that
 * callers open (pieces.h): they copy memory and touch pages.
 *
 * Helpers visit all open jobs in turn. A caller can always do every unclaimed piece itself, so no
 * job depends on a helper being started, awake or scheduled. A caller waits only for pieces that a
 * helper has begun.
 *
 * Helpers are named "gpufeed-copy". They block every signal, run on the node's CPUs, make no CUDA
 * call, and sleep while no job is open. Their scheduling policy is SCHED_OTHER, or that of a job
 * that runs SCHED_BATCH or SCHED_IDLE, unless GPUFEED_HELPER_PRIORITY requests another one. They
 * never end and are never joined. No thread holds a lock of the pool while it does a piece.
 */

struct gf_pool;

struct gf_pool_size {
    /*
     * The number of threads including the caller; 0: the fastest number that `quota` and
     * `rank_cpus` allow.
     */
    unsigned threads;
    double quota;       /* CPU quota in CPUs; 0: no quota */
    unsigned rank_cpus; /* CPUs of this rank, if ranks share the CPUs; else 0 */
    enum gf_helper_priority priority;
};

/*
 * Returns the pool of a node, whose helpers use the CPUs `cpus`. If the node is unknown (-1), each
 * set of CPUs has its own pool. The first call creates the pool without threads. Pools are never
 * freed. NULL: out of memory. May be called on any thread.
 */
struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, const struct gf_pool_size *size);

/*
 * Keeps all helpers within the CPUs that threads of the program may use now. If the program has
 * given up all CPUs of a pool, that pool's helpers move to the program's other CPUs. Also counts the
 * processes that share a pool's CPUs, and limits the pool to its share. Only one thread calls this
 * function.
 */
void gf_pools_follow(const struct gf_cpus *program);

/*
 * The number of threads that can work on a job, including the caller. Fewer threads may have been
 * started so far. The number changes with the program's CPUs and with other processes
 * (gf_pools_follow).
 */
unsigned gf_pool_threads(const struct gf_pool *pool);
/*
 * Notes the number that gf_pool_threads has returned. True: the number noted before was another.
 */
bool gf_pool_note_threads(struct gf_pool *pool, unsigned threads);

/*
 * Starts the helpers at the first call, and does not wait for them. Returns 0, or an errno if the
 * first helper cannot be started. Called on the library's own thread only, for two reasons. First,
 * starting a thread allocates memory, so each calling thread would get an arena of the heap, and
 * each arena slows down forks. Second, threads that the library's own thread starts count as
 * threads of the library. If gf_server_reads serves, it makes the helpers for that thread, so that
 * they share its descriptor table.
 */
int gf_pool_start(struct gf_pool *pool);
/*
 * Whether the helpers share the descriptor table of gf_server_reads (os/own_table.h), which the
 * program cannot see, instead of the program's.
 */
bool gf_pool_is_apart(const struct gf_pool *pool);
/* Whether the first helper could not be started; gf_pool_start does not try again. */
bool gf_pool_has_failed(const struct gf_pool *pool);

/* Whether a helper of any pool does not sleep: it works, or waits for a CPU. Reads files of /proc. */
bool gf_pools_are_awake(void);

/*
 * Requests that gf_pool_start be called for this pool. True: this is the first request, so the
 * caller must make the library's own thread call gf_pools_start_requested.
 */
bool gf_pool_request(struct gf_pool *pool);
/* Starts the helpers of all pools that were requested. Returns 0 or an errno. */
int gf_pools_start_requested(void);

/*
 * Opens a job whose pieces with numbers below `limit` may be claimed. The caller keeps the job at
 * its address until it is closed. Helpers are woken even if no piece may be claimed yet, because
 * waking up takes longer than a chunk's DMA. A job of a real-time thread, or for which
 * gf_pool_is_interrupted is true, gets no helpers, and takes no lock.
 */
void gf_pool_open(struct gf_pool *pool, struct gf_pieces *job, uint64_t limit);

/* Raises the limit below which pieces may be claimed. Called by the job's owner only. */
void gf_pool_raise(struct gf_pool *pool, struct gf_pieces *job, uint64_t limit);

/*
 * Ends a job: no further piece may be claimed, and the function waits for the pieces that helpers
 * have begun. Returns the first piece that failed, or GF_PIECE_NONE.
 */
uint64_t gf_pool_close(struct gf_pool *pool, struct gf_pieces *job);

/*
 * Opens a job, does all its pieces on the caller and the helpers, and closes it. Returns the same
 * as gf_pool_close. A handler of a signal may interrupt this call and fork. In the child, which has
 * no helpers, the call then returns 0, as if the first piece had failed.
 */
uint64_t gf_pool_run(struct gf_pool *pool, struct gf_pieces *job, uint64_t pieces);

/*
 * Whether the caller is a handler of a signal that has interrupted gf_pool_open or gf_pool_close, which may
 * hold a pool's lock. Such a handler must not close a job that it has not opened.
 */
bool gf_pool_is_interrupted(void);

/*
 * The first pool that has at least `helpers` helpers; NULL if there is no such pool, or if
 * gf_pool_is_interrupted.
 */
struct gf_pool *gf_pool_with_helpers(unsigned helpers);

/*
 * The number of helpers that run, and the number of open jobs. Other threads may change both at any
 * time.
 */
unsigned gf_pool_helpers(const struct gf_pool *pool);
unsigned gf_pool_jobs(const struct gf_pool *pool);

/* Jobs of which the owner does no piece, because only helpers can. */

/*
 * Like gf_pool_run, but the caller does no piece. It waits at most `patience_ns` until a helper has
 * claimed the first piece, and then until all pieces are done. Returns the first piece that failed or
 * was not done, or GF_PIECE_NONE. work() must call gf_pieces_notify at its end.
 */
uint64_t gf_pool_run_by_helpers(struct gf_pool *pool, struct gf_pieces *job, uint64_t pieces,
                                uint64_t patience_ns);
