/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "engine/transfer/pieces.h"
#include "engine/transfer/range_policy.h"

/*
 * The division of a range, which consists of mappings of equal size, into units of work for several
 * threads. Consecutive units are in different mappings, because threads that fill one inode at the
 * same time wait for each other.
 */

struct gf_units {
    size_t bytes;   /* of the range */
    size_t mapping; /* bytes of each mapping; the last one may be smaller */
    size_t unit;    /* bytes of a unit; the last one of a mapping may be smaller */
};

/* Number of units. Some of them are empty. */
uint64_t gf_units_count(const struct gf_units *units);

/* The size of unit i, which may be 0. The unit begins at *ret_start. */
size_t gf_units_get(const struct gf_units *units, uint64_t i, size_t *ret_start);

struct gf_pool;

/*
 * Whether `bytes` bytes can be touched without coming near a limit of the control groups, of the
 * host, or of the policy's nodes (NULL: any node). Touching pages beyond a limit invokes the OOM
 * killer, where the driver's own call would return an error.
 */
bool gf_touching_fits(size_t bytes, const struct gf_range_policy *policy);

/*
 * Memory to pin. It consists of shared mappings, as the driver's own memory does, so that forked
 * children see the same pages and fork copies none. Several threads touch it at once. The functions
 * wait for helper threads only, and make no CUDA call. Any thread.
 */

/* One range, made of adjacent mappings (parts) of the same size. */
struct gf_pinned_mapping {
    void *at;
    size_t bytes;  /* the requested size in whole pages, which are touched */
    size_t mapped; /* size in whole huge pages, as of the driver's own mappings */
    size_t part;   /* bytes of each part; the last part may be smaller */
    unsigned parts;
    bool reserved;        /* its pages are reserved huge pages */
    struct gf_pool *pool; /* the helpers */
    struct gf_range_policy policy;
    uint64_t forks; /* gf_kept_mapping_forks before the program got it */
    uint64_t inode; /* of its first part; 0 if the kernel cannot describe mappings */
    /* The node of its pages, read back from a sample; -1 if unknown or several. */
    int node;
};

/*
 * Makes a range of zeros whose pages are all present, placed by the policy. Its pages are reserved
 * huge pages if the user requests them and enough are free (huge_pool.h). Otherwise huge pages are
 * used where the host allows them for shared memory. The caller checks gf_touching_fits first,
 * unless gf_huge_pool_is_on. Returns 0, or -errno of the failed call *ret_call. *ret_call is NULL if
 * too little memory is free, or other processes took the remaining memory while pages were touched.
 */
int gf_pinned_mapping_make(struct gf_pool *pool, size_t bytes, const struct gf_range_policy *policy,
                           struct gf_pinned_mapping *ret, const char **ret_call);
/*
 * Forks take longer for each part that the child inherits, so many parts make later parts larger.
 * Called with used = false when children inherit the range no longer, and with true before it is
 * used again or unmapped.
 */
void gf_pinned_mapping_count(const struct gf_pinned_mapping *mapping, bool used);
/* Unmaps the range by libc's munmap, which communication libraries intercept. */
void gf_pinned_mapping_unmap(const struct gf_pinned_mapping *mapping);

/*
 * Populates writable memory of the program without a store. reserved: it has reserved huge pages,
 * which no headroom limits. Returns 0 or -errno.
 */
int gf_pinned_mapping_populate(struct gf_pool *pool, void *at, size_t bytes, bool reserved);

/* Whether the host allows huge pages for shared memory on request. */
bool gf_pinned_mapping_is_huge(void);
