/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: the driver's mappings of 2 MiB from which it allocates small pinned blocks. A bitmap
 * marks the units whose bytes are those that the program would find without the library. The caller
 * holds the lock, except for gf_pinned_span_clean.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_PINNED_CHUNK_H
#define GF_ENGINE_TRANSFER_PINNED_PINNED_CHUNK_H

#include "base/base.h"

#define GF_PINNED_CHUNK_SIZE ((size_t)2 << 20)
#define GF_PINNED_CHUNK_UNIT ((uintptr_t)256) /* the driver rounds the size of blocks up to this */
#define GF_PINNED_CHUNK_WORDS (GF_PINNED_CHUNK_SIZE / GF_PINNED_CHUNK_UNIT / 64)

/* A mapping that holds, or held, blocks of the program. */
struct gf_pinned_chunk {
    struct gf_pinned_chunk *next;
    uintptr_t base;
    uint64_t context;
    unsigned flags; /* flags of the block for which the driver would have created this mapping */
    unsigned live;  /* blocks of the program in it */
    /*
     * A bit for each clean unit. A unit is clean if it was zeroed or handed out since the time when
     * the driver would have created a new mapping. Other units hold bytes of earlier blocks.
     */
    uint64_t clean[GF_PINNED_CHUNK_WORDS];
};

/* The chunk that begins at `base`; NULL if not found. */
struct gf_pinned_chunk *gf_pinned_chunk_find(uintptr_t base);
/*
 * The same, but adds the chunk if absent. `clean`: if the chunk is new, its mapping is fresh from
 * the kernel. NULL: out of memory, or base is 0.
 */
struct gf_pinned_chunk *gf_pinned_chunk_add(uintptr_t base, uint64_t context, bool clean);
void gf_pinned_chunk_remove(struct gf_pinned_chunk *chunk);
/* Removes the chunks of a context that has ended. */
void gf_pinned_chunk_forget(uint64_t context);

/* The units that belong to one block alone. */
struct gf_pinned_span {
    size_t first, end;
    uint64_t dirty[GF_PINNED_CHUNK_WORDS]; /* bits of the units of the span that were not clean */
};

/*
 * Counts a block of the program, and marks all its units as clean. The caller must clean the span
 * before the program gets the block.
 */
void gf_pinned_chunk_hand_out(struct gf_pinned_chunk *chunk, const void *p, size_t bytes,
                              unsigned flags, struct gf_pinned_span *ret);
/*
 * Uncounts a block before the driver frees it. When no block is left, all units are marked as not
 * clean.
 */
void gf_pinned_chunk_take_back(struct gf_pinned_chunk *chunk);

/*
 * Zeroes the dirty units of a block that the program does not have yet. Its bytes in units that
 * other blocks may share are always zeroed.
 */
void gf_pinned_span_clean(const struct gf_pinned_span *span, uintptr_t base, char *p, size_t bytes);

#endif
