/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/plan.h"

#include "engine/transfer/pages.h"
#include "engine/transfer/tuning.h"

/*
 * Returns the largest power of two that is at most `wish`, but within the two bounds, which are
 * powers of two.
 */
static size_t power_within(size_t wish, size_t least, size_t most)
{
    size_t ret = least;
    while (ret * 2 <= wish && ret < most)
        ret *= 2;
    return ret;
}

/*
 * CLDEMOTE makes each thread slower, so it is used only if the pool has more threads than the link
 * needs.
 */
static bool pays_to_demote(const struct gf_plan_facts *facts)
{
    return !facts->to_host && facts->bytes >= GF_TUNE_CLDEMOTE_BYTES &&
           facts->threads >= GF_TUNE_CLDEMOTE_THREADS && facts->can_demote;
}

static unsigned helpers_for(const struct gf_plan_facts *facts, bool demoted)
{
    if (demoted)
        return 0;
    if (facts->bytes < GF_TUNE_SMALL)
        return GF_TUNE_HELPERS_SMALL;
    return facts->threads_by_option ? 0 : GF_TUNE_HELPERS;
}

/* Returns the largest size of a chunk of which two fit into the ring. */
static size_t chunk_most(const struct gf_plan_facts *facts)
{
    const size_t most = facts->callers > GF_TUNE_CROWD ? GF_TUNE_CHUNK_CROWD : GF_TUNE_CHUNK_MOST;
    return power_within(facts->ring_bytes / 2, GF_TUNE_CHUNK_LEAST, most);
}

/* Returns how many slots the copy should use. The current callers share the ring. */
static unsigned slots_wished(const struct gf_plan_facts *facts, const struct gf_plan *plan)
{
    const size_t share = gf_max(GF_TUNE_RING_WINDOW / facts->callers, GF_TUNE_SHARE_LEAST);
    const uint64_t slots = gf_min(plan->chunks, (uint64_t)(share / plan->chunk));
    return (unsigned)gf_min(slots, (uint64_t)GF_TUNE_SLOTS);
}

/*
 * Returns the least number of slots with which the copy is staged. The driver's asynchronous copy
 * of up to GF_TUNE_ASYNC_NOWAIT bytes to the device never waits. If a staged copy has a slot for
 * each chunk, it never waits either, even if other threads put work on its stream during the call.
 */
static unsigned slots_needed(const struct gf_plan_facts *facts, const struct gf_plan *plan)
{
    const bool may_wait = facts->to_host || !facts->async || facts->bytes > GF_TUNE_ASYNC_NOWAIT;
    return may_wait ? gf_min(plan->slots, 2u) : (unsigned)plan->chunks;
}

/*
 * If several threads touch the same absent huge page at once, each thread clears a new page, and
 * the kernel discards all but one of them. So a piece is a whole huge page here.
 */
static void cut_at_huge_pages(const struct gf_plan_facts *facts, struct gf_plan *plan)
{
    if (!facts->absent || facts->bytes < GF_TUNE_UNITS_LEAST || chunk_most(facts) < GF_HUGE_PAGE)
        return;
    plan->chunk = plan->piece = GF_HUGE_PAGE;
    plan->lead = facts->absent % GF_HUGE_PAGE;
}

void gf_plan_chunks(const struct gf_plan_facts *facts, struct gf_plan *ret)
{
    /*
     * With CLDEMOTE a chunk stays in the shared cache, where the device reads it right after it was
     * written.
     */
    ret->demoted = pays_to_demote(facts);
    ret->helpers = helpers_for(facts, ret->demoted);
    ret->chunk =
        power_within(facts->bytes / GF_TUNE_CHUNKS, GF_TUNE_CHUNK_LEAST, chunk_most(facts));
    ret->piece = ret->demoted
                     ? GF_TUNE_PIECE_LEAST
                     : power_within(ret->chunk / GF_TUNE_PIECES, GF_TUNE_PIECE_LEAST, ret->chunk);
    ret->lead = 0;
    cut_at_huge_pages(facts, ret);
    ret->chunks = (ret->lead + facts->bytes + ret->chunk - 1) / ret->chunk;
    ret->slots = slots_wished(facts, ret);
    ret->slots_least = slots_needed(facts, ret);
}

void gf_plan_whole(const struct gf_plan_facts *facts, struct gf_plan *ret)
{
    *ret = (struct gf_plan){
        .chunk = facts->bytes,
        .piece = power_within(facts->bytes / GF_TUNE_CHUNKS / GF_TUNE_PIECES, GF_TUNE_PIECE_LEAST,
                              GF_TUNE_CHUNK_MOST / GF_TUNE_PIECES),
        .chunks = 1,
        .slots = 1,
        .slots_least = 1,
        .helpers = helpers_for(facts, false),
    };
}
