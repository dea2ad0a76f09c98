/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a staged copy is divided: into chunks (one DMA each), and each chunk into pieces (one memcpy
 * each, by any thread of the pool). The functions only calculate.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_PLAN_H
#define GF_ENGINE_TRANSFER_COPY_PLAN_H

#include "base/base.h"

/* The facts that a plan depends on. */
struct gf_plan_facts {
    size_t bytes;
    bool to_host;
    bool async;
    bool can_demote;        /* the processor has CLDEMOTE */
    bool threads_by_option; /* an option sets the number of threads of the pool */
    unsigned threads;       /* copying threads of the pool, the caller included */
    unsigned callers;       /* copies in the context now, this one included */
    size_t ring_bytes;
    /*
     * The destination, if its pages are absent: the kernel clears a huge page at each of its first
     * page faults. 0: the pages are present, or the copy reads them.
     */
    uintptr_t absent;
};

struct gf_plan {
    /* Powers of two, except that the chunk of gf_plan_whole is the whole copy. */
    size_t chunk, piece;
    /*
     * The first chunk and its first piece are shorter by this, so that the others begin at huge
     * pages. 0 unless a chunk is one piece.
     */
    size_t lead;
    uint64_t chunks;
    unsigned slots;       /* the planned number of chunks under way at once */
    unsigned slots_least; /* with fewer slots the copy is not staged */
    unsigned helpers;     /* the most helpers at work at once; 0: no limit */
    bool demoted;         /* bytes written into the ring stay in the shared cache */
};

/* Plans a copy in chunks, for an idle stream. */
void gf_plan_chunks(const struct gf_plan_facts *facts, struct gf_plan *ret);

/* Plans a copy to the device in one chunk, whose DMA waits for a busy stream. */
void gf_plan_whole(const struct gf_plan_facts *facts, struct gf_plan *ret);

/*
 * The offset in the copy where a chunk or a piece begins. For the number after the last one, an
 * offset at or beyond the end of the copy.
 */
static inline size_t gf_plan_chunk_offset(const struct gf_plan *plan, uint64_t chunk)
{
    return chunk ? chunk * plan->chunk - plan->lead : 0;
}

static inline size_t gf_plan_piece_offset(const struct gf_plan *plan, uint64_t piece)
{
    return piece ? piece * plan->piece - plan->lead : 0;
}

#endif
