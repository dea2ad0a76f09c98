/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/engine_api.h"
#include "abi/gputime_api.h"
#include "base/atomic.h"
#include "base/base.h"

#include <pthread.h>

/* What the hooks know about a thread. All members are zero in a new thread. */

struct gf_thread {
    unsigned inside; /* nonzero inside this library, where hooks pass through */
    /* Nonzero inside cuInit or context creation, where libcuda starts threads. */
    unsigned in_driver;
    /* Number of the thread's counter set (below); 0 before it has one. */
    unsigned counters;
    bool ours; /* started by this library, or by a thread that is `ours` */
};

/* The variable is in the static TLS block, so that an access never allocates. */
extern __thread struct gf_thread gf_thread __attribute__((tls_model("initial-exec")));

/*
 * Disables cancellation around a call into the engine. The engine calls open, read and write, which
 * are cancellation points. A hook must not be a cancellation point unless the original function is
 * one, and a thread must not end inside the engine.
 */
static inline int gf_thread_hold_cancel(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void gf_thread_release_cancel(int before)
{
    pthread_setcancelstate(before, NULL);
}

/* The records of the threads that submit work, by the number of their counter set. */

extern struct gf_submit_table gf_submissions;

/* Whether the thread of a set is inside a driver call. */
static inline bool gf_submitter_is_inside(unsigned set)
{
    const struct gf_submitter *submitter = &gf_submissions.submitters[set];
    return gf_load_relaxed(&submitter->doing) || gf_load_relaxed(&submitter->stream) ||
           gf_load_relaxed(&submitter->begun) != gf_load_relaxed(&submitter->ended);
}

/* Counts one more visible result in the context. */
static inline void gf_visible_add(struct gf_visible *visible, uintptr_t context)
{
    uintptr_t owner = 0;

    if (!gf_cas_relaxed(&visible->context, &owner, context) && owner != context)
        gf_store_relaxed(&visible->context, GF_SUBMIT_SEVERAL);
    gf_add_release(&visible->made, 1);
}

/*
 * Called before the count of a stream is used for another stream. The legacy stream waits for the
 * pending results of a blocking stream, so they count as its own from now on. Those of other streams
 * have no count any more: streams that wait for an event may wait for them.
 */
static inline void gf_visible_hand_on(struct gf_visible *visible, bool blocking)
{
    const uint32_t made = gf_load_seq_cst(&visible->made);
    const uintptr_t context = gf_load_relaxed(&visible->context);

    if (made == gf_load_relaxed(&visible->seen) || made == gf_load_relaxed(&visible->first))
        return;
    if (!blocking || context == GF_SUBMIT_SEVERAL)
        gf_store_relaxed(&gf_submissions.uncounted_visible, true);
    else
        gf_visible_add(gf_visible_of_legacy(&gf_submissions, (CUcontext)context), context);
    gf_store_release(&visible->seen, made);
}

/*
 * Counts the calls of a set as ended. The thread that owned the set has ended inside them, and the
 * caller owns the set now.
 */
static inline void gf_submitter_end_calls(unsigned set)
{
    struct gf_submitter *submitter = &gf_submissions.submitters[set];
    gf_store_relaxed(&submitter->doing, 0);
    gf_store_relaxed(&submitter->stream, 0);
    gf_store_relaxed(&submitter->context, 0);
    gf_store_relaxed(&submitter->used_stream, 0);
    gf_visible_hand_on(&submitter->own_visible, true);
    gf_store_release(&submitter->ended, gf_load_relaxed(&submitter->begun));
}

/* Counts the calls of each hook, and the bytes of its copies. */

enum gf_hook {
#define GF_CU(symbol) gf_hook_##symbol,
#define GF_LIBC(symbol) gf_hook_##symbol,
#include "abi/hooks.def"
    gf_hook_count,
};

struct gf_counter {
    _Atomic uint64_t calls;
    _Atomic uint64_t more; /* copies beyond the first of each call */
    _Atomic uint64_t bytes, offered, offered_bytes, unfit, unfit_bytes;
};

/*
 * Up to GF_COUNTER_OWN threads each have a set of their own; all other threads share a few sets. A
 * thread needs no locked instruction for its own set. A locked instruction would wait for all
 * earlier stores. After a small copy, that takes a fiftieth of the copy's time (bench/NOTES.md).
 */
#define GF_COUNTER_OWN 64u
#define GF_COUNTER_SHARED 16u

struct gf_counter_set {
    _Alignas(64) struct gf_counter of[gf_hook_count];
};
#define GF_COUNTER_SETS (GF_COUNTER_OWN + GF_COUNTER_SHARED)

/*
 * The sets, mapped when the first thread joins. Not in .bss, because RLIMIT_DATA and mlockall count
 * that in every process. If they cannot be mapped, all threads share one set.
 */
extern struct gf_counter_set *_Atomic gf_counters;

/*
 * The owner of each set, as gf_counter_owner returns it; 0 if the set never had one. A new thread
 * takes over the set of a thread that has ended. In a forked child, any set may belong to the
 * thread that forked, so all sets stay taken until gf_counters_in_child runs. gf_counters_in_child
 * never runs in a child that was forked before cuInit.
 */
extern _Atomic uint64_t gf_counter_owners[GF_COUNTER_OWN];

static inline uint64_t gf_counter_owner(pid_t process, pid_t thread)
{
    return (uint64_t)(uint32_t)process << 32 | (uint32_t)thread;
}

/*
 * Assigns a set to the calling thread, and returns the number of the set, counted from 1. Keeps
 * errno.
 */
unsigned gf_counters_join(void);
/*
 * Ends the recorded driver calls of threads that have ended inside them, by pthread_cancel or
 * pthread_exit, and frees the sets of these threads. Makes one system call for each thread that is
 * inside a driver call. Only for threads that have a set of their own.
 */
void gf_counters_end_lost_calls(void);
/* In a forked child: frees the sets of the parent's other threads. */
void gf_counters_in_child(void);

static inline unsigned gf_counters_mine(void)
{
    const unsigned set = gf_thread.counters;
    return gf_likely(set) ? set : gf_counters_join();
}

static inline struct gf_counter *gf_counter_in(unsigned set, enum gf_hook hook)
{
    return &gf_load_relaxed(&gf_counters)[set - 1].of[hook];
}

/* Adds to a counter of the calling thread's set. An addition by a signal handler may be lost. */
static inline void gf_count_add(unsigned set, _Atomic uint64_t *counter, uint64_t add)
{
    if (gf_likely(set <= GF_COUNTER_OWN))
        gf_store_relaxed(counter, gf_load_relaxed(counter) + add);
    else
        gf_add_relaxed(counter, add);
}

/*
 * The same as gf_count_add, but other threads see the addition only after all earlier stores of the
 * calling thread.
 */
static inline void gf_count_add_release(unsigned set, _Atomic uint64_t *counter, uint64_t add)
{
    if (gf_likely(set <= GF_COUNTER_OWN))
        gf_store_release(counter, gf_load_relaxed(counter) + add);
    else
        gf_add_release(counter, add);
}

static inline void gf_count(enum gf_hook hook)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->calls, 1);
}

static inline void gf_count_bytes(enum gf_hook hook, uint64_t bytes)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->bytes, gf_bytes_counted(bytes));
}

/* Counts the copies of a call other than its first copy. */
static inline void gf_count_more(enum gf_hook hook, uint64_t copies)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->more, copies);
}

/*
 * Counts a copy that is large enough for staging. offered: whether the copy has a shape that can be
 * staged.
 */
static inline void gf_count_large(enum gf_hook hook, uint64_t bytes, bool offered)
{
    const unsigned set = gf_counters_mine();
    struct gf_counter *counter = gf_counter_in(set, hook);
    gf_count_add(set, offered ? &counter->offered : &counter->unfit, 1);
    gf_count_add(set, offered ? &counter->offered_bytes : &counter->unfit_bytes,
                 gf_bytes_counted(bytes));
}

/* gf_preload.hook_counts */
bool gf_counters_read(size_t i, struct gf_hook_counts *ret);
