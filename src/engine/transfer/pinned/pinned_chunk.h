/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: the driver's mappings of 2 MiB from which it allocates small pinned blocks. A bitmap for
 * each chunk marks the clean units: those that hold the bytes that the program would find without
 * the library. The caller holds the lock of pinned_cache.c, except for gf_pinned_span_clean.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_PINNED_CHUNK_H
#define GF_ENGINE_TRANSFER_PINNED_PINNED_CHUNK_H

#include "base/base.h"

#define GF_PINNED_CHUNK_SIZE ((size_t)2 << 20)
#define GF_PINNED_CHUNK_UNIT ((uintptr_t)256) /* the driver rounds the size of blocks up to this */
#define GF_PINNED_CHUNK_WORDS (GF_PINNED_CHUNK_SIZE / GF_PINNED_CHUNK_UNIT / 64)

/* One mapping of the driver that holds, or held, blocks of the program. */
struct gf_pinned_chunk {
    struct gf_pinned_chunk *next;
    uintptr_t base;
    uint64_t context;
    /*
     * without the library, flags of the block for which the driver would have created the mapping
     */
    unsigned flags;
    unsigned live;  /* number of blocks of the program in the mapping */
    uint64_t forks; /* gf_kept_mapping_forks() before children could inherit the mapping */
    bool hidden;    /* children do not inherit it, because the program has no block in it */
    bool showable;  /* the kernel can let children inherit it again */
    /*
     * Has a bit set for each clean unit. Without the library, the driver would have created a new
     * mapping at some time. A unit is clean if it was zeroed or handed out since then. Other units
     * hold bytes of earlier blocks.
     */
    uint64_t clean[GF_PINNED_CHUNK_WORDS];
};

/* The chunk that begins at `base`; NULL if not found. */
struct gf_pinned_chunk *gf_pinned_chunk_find(uintptr_t base);
/*
 * The same, but adds the chunk if it is not found. `clean`: the mapping of an added chunk is new,
 * so all its units are clean. NULL: out of memory, or base is 0.
 */
struct gf_pinned_chunk *gf_pinned_chunk_add(uintptr_t base, uint64_t context, bool clean);
void gf_pinned_chunk_remove(struct gf_pinned_chunk *chunk);
/* Removes the chunks of a context that has ended. */
void gf_pinned_chunk_forget(uint64_t context);

/* The units of a chunk that belong to one block alone: from `first` to before `end`. */
struct gf_pinned_span {
    size_t first, end;
    uint64_t dirty[GF_PINNED_CHUNK_WORDS]; /* bits of the units of the span that were not clean */
};

/*
 * Adds 1 to the chunk's count of blocks for a new block of the program. Marks the units that belong
 * to this block alone as clean, and returns in *ret which of them were not clean. The caller must
 * call gf_pinned_span_clean before the program gets the block.
 */
void gf_pinned_chunk_hand_out(struct gf_pinned_chunk *chunk, const void *p, size_t bytes,
                              unsigned flags, struct gf_pinned_span *ret);
/*
 * Subtracts 1 from the chunk's count of blocks, before the driver frees a block. When no block is
 * left, all units are marked as not clean.
 */
void gf_pinned_chunk_take_back(struct gf_pinned_chunk *chunk);

/*
 * Zeroes the dirty units of a block, before the program gets it. Always zeroes the block's bytes at
 * its two ends, in units that other blocks may share.
 */
void gf_pinned_span_clean(const struct gf_pinned_span *span, uintptr_t base, char *p, size_t bytes);

#endif
