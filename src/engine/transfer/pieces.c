/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pieces.h"

#include "base/clock.h"
#include "engine/transfer/tuning.h"

static bool claim_piece(struct gf_pieces *job, uint64_t *ret)
{
    uint64_t next = gf_load_relaxed(&job->next);
    do {
        if (next >= gf_load_acquire(&job->limit) || gf_load_relaxed(&job->failed) != GF_PIECE_NONE)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&job->next, &next, next + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    *ret = next;
    return true;
}

static void fail_piece(struct gf_pieces *job, uint64_t piece)
{
    uint64_t first = gf_load_relaxed(&job->failed);
    while (piece < first &&
           !atomic_compare_exchange_weak_explicit(&job->failed, &first, piece, memory_order_acq_rel,
                                                  memory_order_relaxed))
        ;
    gf_pieces_notify(job);
}

bool gf_pieces_help(struct gf_pieces *job)
{
    uint64_t piece;
    if (!claim_piece(job, &piece))
        return false;
    if (!job->work(job, piece))
        fail_piece(job, piece);
    return true;
}

bool gf_pieces_is_finished(const struct gf_pieces *job)
{
    return !gf_pieces_unclaimed(job) && gf_load_acquire(&job->helpers) == 0;
}

/*
 * Spins for at most GF_TUNE_CALLER_SPIN_NS, and returns whether the word has changed from `seen`.
 */
static bool spin_until_changed(const _Atomic uint32_t *word, uint32_t seen)
{
    const uint64_t until = gf_now_ns() + GF_TUNE_CALLER_SPIN_NS;
    do {
        for (unsigned i = 0; i < 16; i++)
            gf_relax();
        if (gf_load_acquire(word) != seen)
            return true;
    } while (gf_now_ns() < until);
    return false;
}

void gf_pieces_notify(struct gf_pieces *job)
{
    gf_eventcount_notify(&job->events);
}

uint32_t gf_pieces_events(const struct gf_pieces *job)
{
    return gf_eventcount_read(&job->events);
}

void gf_pieces_wait(struct gf_pieces *job, uint32_t seen)
{
    if (gf_pieces_events(job) == seen && !spin_until_changed(&job->events.count, seen))
        gf_eventcount_await(&job->events, seen);
}

void gf_pieces_await_helpers(struct gf_pieces *job)
{
    uint32_t helpers;
    while ((helpers = gf_load_acquire(&job->helpers)) != 0)
        if (!spin_until_changed(&job->helpers, helpers))
            gf_futex_wait(&job->helpers, helpers);
}
