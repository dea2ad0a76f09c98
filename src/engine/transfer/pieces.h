/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, eventcounts, futexes. */
#pragma once

#include "base/atomic.h"
#include "base/base.h"

#include <linux/futex.h>

/*
 * Futexes private to the process, and a pause for spinning. The functions are no cancellation
 * points. They may change errno.
 */

/*
 * Sleeps while *word is `seen`. True: another thread woke this one. False: *word was no longer
 * `seen`, or a signal arrived.
 */
static inline bool gf_futex_wait(const _Atomic uint32_t *word, uint32_t seen)
{
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) == 0;
}

/*
 * Wakes up to `threads` waiters, and returns how many it woke. The word may already be freed; a
 * stray wake-up is harmless, because every waiter checks its condition again.
 */
static inline unsigned gf_futex_wake(const _Atomic uint32_t *word, unsigned threads)
{
    const long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
    return woken > 0 ? (unsigned)woken : 0;
}

static inline void gf_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Eventcounts: a thread waits for a condition that other threads make true, without a lock. A
 * waiter reads the count, checks its condition, and sleeps only if the count is unchanged. A
 * notifier makes the condition true, advances the count, and then reads whether there are sleepers.
 * All accesses are sequentially consistent. So the waiter sees the new count, or the notifier sees
 * the sleeper.
 */

struct gf_eventcount {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

static inline uint32_t gf_eventcount_read(const struct gf_eventcount *events)
{
    return gf_load_seq_cst(&events->count);
}

static inline void gf_eventcount_advance(struct gf_eventcount *events)
{
    gf_add_seq_cst(&events->count, 1);
}

static inline uint32_t gf_eventcount_sleepers(const struct gf_eventcount *events)
{
    return gf_load_seq_cst(&events->sleepers);
}

/*
 * These two functions are for any number of waiters. A waiter increments the count of sleepers
 * before it sleeps. The thread that wakes waiters subtracts their number.
 */
static inline void gf_eventcount_sleep(struct gf_eventcount *events, uint32_t seen)
{
    gf_add_seq_cst(&events->sleepers, 1);
    if (!gf_futex_wait(&events->count, seen))
        gf_sub_seq_cst(&events->sleepers, 1);
}

static inline void gf_eventcount_wake(struct gf_eventcount *events, unsigned threads)
{
    gf_sub_seq_cst(&events->sleepers, gf_futex_wake(&events->count, threads));
}

/* For a single waiter: sleeps until the count has advanced. */
static inline void gf_eventcount_await(struct gf_eventcount *events, uint32_t seen)
{
    gf_store_seq_cst(&events->sleepers, 1);
    while (gf_eventcount_read(events) == seen)
        gf_futex_wait(&events->count, seen);
    gf_store_relaxed(&events->sleepers, 0);
}

/* Advances the count, and wakes a single waiter. */
static inline void gf_eventcount_notify(struct gf_eventcount *events)
{
    gf_eventcount_advance(events);
    if (gf_eventcount_sleepers(events))
        gf_futex_wake(&events->count, 1);
}

/*
 * A job is a numbered sequence of pieces of work. Two kinds of threads claim pieces in order: the
 * owner, which opened the job in a pool, and the pool's helper threads (pool.h).
 */

#define GF_PIECE_NONE UINT64_MAX

struct gf_pieces {
    /* The owner sets these members before gf_pool_open. */

    /*
     * Does a piece. Called on any thread, also on several threads at the same time. False: the
     * piece failed; then no further piece is claimed.
     */
    bool (*work)(struct gf_pieces *job, uint64_t piece);
    unsigned max_helpers; /* the most helpers that work on the job at once; 0: no limit */
    bool low_priority;    /* helpers work on the job only while no other job has work for them */
    /*
     * The number of pieces from which the pool calculates how many helpers to wake; 0: the limit
     * that gf_pool_open gets.
     */
    uint64_t total;
    /*
     * Set for a job without an owner, which is never closed. Such a job is finished when all its
     * pieces are done, or when a piece has failed and no helper is at work. A helper then removes
     * the job from the pool, calls this function, and never touches the job again. NULL: the job
     * has an owner.
     */
    void (*done)(struct gf_pieces *job);

    /* The pool sets these members. */
    bool alone; /* no helper works on the job: its owner is a real-time thread or a handler */
    struct gf_pieces *before, *after;
    uint32_t pkru;                      /* the owner's protection key rights, which helpers adopt */
    struct gf_eventcount events;        /* notifies the owner */
    _Atomic uint32_t helpers;           /* helpers at work on this job */
    _Atomic uint64_t limit;             /* pieces with lower numbers may be claimed */
    _Atomic uint64_t failed;            /* the first piece that failed, or GF_PIECE_NONE */
    _Alignas(64) _Atomic uint64_t next; /* the first unclaimed piece */
};

/* Claims and does one piece. False: no piece may be claimed now, or a piece has failed. */
bool gf_pieces_help(struct gf_pieces *job);

/* The first piece that failed, or GF_PIECE_NONE. */
static inline uint64_t gf_pieces_failed(const struct gf_pieces *job)
{
    return gf_load_acquire(&job->failed);
}

/*
 * Whether all pieces are done, or a piece has failed and no helper is at work. Even then the owner
 * must call gf_pool_close.
 */
bool gf_pieces_is_finished(const struct gf_pieces *job);

/* Called inside work(): notifies the owner that something for which it may wait has happened. */
void gf_pieces_notify(struct gf_pieces *job);

/*
 * gf_pieces_wait waits until gf_pieces_events returns another value than `seen`, which it returned
 * earlier. Only the owner calls gf_pieces_wait, and only while a helper is at work that will call
 * gf_pieces_notify.
 */
uint32_t gf_pieces_events(const struct gf_pieces *job);
void gf_pieces_wait(struct gf_pieces *job, uint32_t seen);

/* Functions for the pool. */

static inline void gf_pieces_init(struct gf_pieces *job, uint64_t limit, uint32_t pkru)
{
    job->pkru = pkru;
    gf_store_relaxed(&job->events.count, 0);
    gf_store_relaxed(&job->events.sleepers, 0);
    gf_store_relaxed(&job->helpers, 0);
    gf_store_relaxed(&job->limit, limit);
    gf_store_relaxed(&job->failed, GF_PIECE_NONE);
    gf_store_relaxed(&job->next, 0);
}

/* Waits until no helper is at work on the job. */
void gf_pieces_await_helpers(struct gf_pieces *job);

/* The number of pieces that may be claimed now. */
static inline uint64_t gf_pieces_unclaimed(const struct gf_pieces *job)
{
    const uint64_t next = gf_load_acquire(&job->next);
    const uint64_t limit = gf_load_acquire(&job->limit);
    const bool failed = gf_load_relaxed(&job->failed) != GF_PIECE_NONE;
    return next < limit && !failed ? limit - next : 0;
}
