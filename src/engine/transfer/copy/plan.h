/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a staged copy is divided. A copy consists of chunks, each of which one DMA transfers.
 * A chunk consists of pieces, each of which any thread of the pool copies with one memcpy. The
 * functions only calculate.
 */
#pragma once

#include "base/base.h"

/* The facts that a plan depends on. */
struct gf_plan_facts {
    size_t bytes;
    bool to_host;
    bool async;
    bool can_demote;        /* the processor has CLDEMOTE */
    bool threads_by_option; /* an option sets the number of threads of the pool */
    unsigned threads;       /* copying threads of the pool, the caller included */
    unsigned callers;       /* copies in the context now, including this copy */
    size_t ring_bytes;
    /*
     * The address of the destination, if most of its pages are absent. The kernel then clears a
     * huge page at the first access to it. 0: most pages are present or were not sampled, or the
     * copy goes to the device.
     */
    uintptr_t absent;
};

struct gf_plan {
    /*
     * Sizes in bytes. Both are powers of two, except that the chunk of gf_plan_whole is the whole
     * copy.
     */
    size_t chunk, piece;
    /*
     * The first chunk is shorter by this many bytes, so that all other chunks begin at a huge page.
     * 0 unless each chunk is one piece.
     */
    size_t lead;
    uint64_t chunks;
    unsigned slots;       /* the planned number of chunks under way at once */
    unsigned slots_least; /* with fewer slots the copy is not staged */
    unsigned helpers;     /* the most helpers at work at once; 0: no limit */
    bool demoted;         /* CLDEMOTE moves bytes written into the ring to the shared cache */
};

/* Plans a copy in chunks, for an idle stream. */
void gf_plan_chunks(const struct gf_plan_facts *facts, struct gf_plan *ret);

/* Plans a copy to the device in one chunk, for a busy stream. */
void gf_plan_whole(const struct gf_plan_facts *facts, struct gf_plan *ret);

/*
 * Return the offset in the copy where a chunk or a piece begins. For the number after the last
 * chunk or piece, they return an offset at or beyond the end of the copy.
 */
static inline size_t gf_plan_chunk_offset(const struct gf_plan *plan, uint64_t chunk)
{
    return chunk ? chunk * plan->chunk - plan->lead : 0;
}

static inline size_t gf_plan_piece_offset(const struct gf_plan *plan, uint64_t piece)
{
    return piece ? piece * plan->piece - plan->lead : 0;
}
