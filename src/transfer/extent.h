/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory to pin: shared mappings, as the driver's own are, so that forked children see them and fork
 * copies nothing; touched by several threads at once. Waits for helpers only; calls no CUDA.
 */
#ifndef GF_TRANSFER_EXTENT_H
#define GF_TRANSFER_EXTENT_H

#include "base/base.h"

struct gf_pool;

struct gf_extent {
    void *at;
    size_t bytes;  /* that were asked for, in whole pages: these are touched */
    size_t mapped; /* the same in whole huge pages, as the driver's own mappings are */
    size_t piece;  /* of each of its mappings; the last may be smaller */
    unsigned mappings;
    struct gf_pool *pool; /* NULL */
    int node; /* that its pages are on, read back from a sample; -1 unknown or several */
};

/*
 * One range of zeroes that is all there and prefers the node (-1: whichever). It is mapped in whole
 * huge pages; what is behind the bytes that were asked for is not touched. Huge pages where the host
 * allows them for shared memory. 0, or -errno of *ret_call, which the system refused; that is NULL
 * where others took what was left while it was touched. pool may be NULL.
 */
int gf_extent_make(struct gf_pool *pool, size_t bytes, int node, struct gf_extent *ret,
                   const char **ret_call);
/* Through libc's munmap: communication libraries watch it. Waits for helpers that unmap, too. */
void gf_extent_drop(const struct gf_extent *extent);

/* Makes writable memory of the program's own present, without a store. 0 or -errno. */
int gf_extent_populate(struct gf_pool *pool, void *at, size_t bytes);

/* Whether this host lets shared memory have huge pages on request. */
bool gf_extent_is_huge(void);

/*
 * Whether so much may be touched now without coming near a limit of the control groups, of the host,
 * or of the node (-1: any): touched pages are killed for, where the driver's own call fails.
 */
bool gf_extent_fits(size_t bytes, int node);

/* The node of all pages of a sample; -1 where they are on several, or the kernel does not say. */
int gf_extent_node(const void *at, size_t bytes);

#endif
