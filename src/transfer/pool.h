/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helper threads of one NUMA node that do pieces of a caller's work: they copy, and touch pages.
 *
 * A job is a row of pieces, claimed one after the other by whoever has time: the thread that opened
 * the job and the helpers, which go round all open jobs. A caller can always do every unclaimed
 * piece itself, so nothing depends on a helper being born, awake or given a CPU; it waits only for
 * pieces that a helper has already begun.
 *
 * Helpers are named "gpufeed-copy", block every signal, run SCHED_OTHER, keep to the node's CPUs,
 * make no CUDA call, and sleep while no job is open. They are never joined or ended. No lock of the
 * pool is held while a piece is worked on.
 */
#ifndef GF_TRANSFER_POOL_H
#define GF_TRANSFER_POOL_H

#include "base/cpus.h"

struct gf_pool;

#define GF_PIECE_NONE UINT64_MAX

struct gf_job {
    /* Filled in by the owner before gf_pool_open. */

    /* Any thread, several at once. False: it failed; pieces not yet claimed are not begun any more. */
    bool (*work)(struct gf_job *job, uint64_t piece);
    unsigned most;  /* helpers at once; 0: all */
    bool patient;   /* helpers come only while no other job wants them */
    uint64_t total; /* pieces that there will be: so many helpers are called at once; 0: the limit */
    /*
     * Of a job that nobody owns: it is not closed, but leaves the pool when all its pieces are done, or one has
     * failed and nobody is at work. Then a helper calls this, and it is touched no more. NULL: it has an owner.
     */
    void (*gone)(struct gf_job *job);

    /* The pool's. */
    struct gf_job *before, *after;
    uint32_t rights;  /* the owner's protection keys, which helpers take on */
    uint32_t bell;    /* counts what the owner may be waiting for */
    uint32_t waiting; /* the owner sleeps on bell */
    uint32_t inside;  /* helpers at work */
    uint64_t limit;   /* pieces below may be claimed */
    uint64_t failed;  /* the first that failed; GF_PIECE_NONE */
    _Alignas(64) uint64_t next; /* the first that nobody has claimed */
};

/*
 * The pool of a node (-1 unknown) whose helpers use these CPUs; made at the first request, with no
 * thread yet. `threads` counts the caller, 0 is as many as pay on that many CPUs under that quota
 * (CPUs' worth; 0 none). NULL: no memory. Any thread; the same for the process's life.
 */
struct gf_pool *gf_pool_get(int node, const struct gf_cpus *cpus, unsigned threads, double quota);

/* How many threads can work on a job, the caller included: what was asked for, or less. */
unsigned gf_pool_threads(const struct gf_pool *pool);

/*
 * Starts the helpers unless that was done, and does not wait for them. 0 or the errno of the first. All
 * are made by one thread: who makes one allocates, and thus has an arena of the heap, which each fork
 * of the process pays for. That thread is ours, so that they count as ours.
 */
int gf_pool_start(struct gf_pool *pool);
/* No helper could be started, and none will be. */
bool gf_pool_is_refused(const struct gf_pool *pool);

/* Asks for that; whether nobody has before. Then somebody is to call the other: all that are wanted. */
bool gf_pool_want(struct gf_pool *pool);
int gf_pools_start(void);

/*
 * Opens a job of which pieces below `limit` may be claimed. The job stays where it is until it is
 * closed. Helpers are called, also when there is nothing to claim yet: waking up takes them longer
 * than a chunk takes the wire.
 */
void gf_pool_open(struct gf_pool *pool, struct gf_job *job, uint64_t limit);

/* Allows more pieces. The owner only. */
void gf_pool_raise(struct gf_pool *pool, struct gf_job *job, uint64_t limit);

/* The owner does one unclaimed piece; false: there is none (or one has failed). */
bool gf_pool_help(struct gf_job *job);

/* Tells the owner, from inside work(), that something it may wait for has come about. */
void gf_pool_ring(struct gf_job *job);

/*
 * The owner waits until somebody has rung since `seen` was read from gf_pool_bell. Only when a
 * helper is at work that will ring.
 */
uint32_t gf_pool_bell(const struct gf_job *job);
void gf_pool_wait(struct gf_job *job, uint32_t seen);

/*
 * Ends a job: no further piece is begun, and those under way are waited for. Returns the first
 * piece that failed, or GF_PIECE_NONE.
 */
uint64_t gf_pool_close(struct gf_pool *pool, struct gf_job *job);

/* All pieces of a job, the caller at work with the helpers. As gf_pool_close. */
uint64_t gf_pool_run(struct gf_pool *pool, struct gf_job *job, uint64_t pieces);

/* Whether a job that was opened and left to the helpers has done all its pieces or failed; its owner closes it. */
bool gf_pool_finished(const struct gf_job *job);

/* The first pool in which that many helpers live; NULL. */
struct gf_pool *gf_pool_awake(unsigned helpers);

/* Helpers that live; and how many jobs are open. For the report, and for deciding what pays. */
unsigned gf_pool_helpers(const struct gf_pool *pool);
unsigned gf_pool_jobs(const struct gf_pool *pool);

#endif
