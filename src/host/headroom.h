/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process can still take, by each of those who may say no. Clean file pages
 * and lazily freed ones count as free: the kernel takes them without asking.
 */
#ifndef GF_HOST_HEADROOM_H
#define GF_HOST_HEADROOM_H

#include "base/base.h"

#define GF_HEADROOM_UNKNOWN UINT64_MAX

struct gf_headroom {
    uint64_t bytes;  /* the least of those below; GF_HEADROOM_UNKNOWN when none could be read */
    uint64_t cgroup; /* of the tightest group of this process and its visible parents */
    uint64_t host;   /* MemAvailable */
    uint64_t node;   /* of the node that was asked for */
    uint64_t limit;  /* of that tightest group; GF_HEADROOM_UNKNOWN: unlimited */
    const char
        *cgroup_file; /* where its limit stood: "memory.max", "memory.high", ...; NULL: none */
};

/* For those who call often: one caller at a time for each. */
struct gf_headroom_scratch {
    char text[4096];
    char group[1024];
};

/*
 * node: -1, or one whose free memory counts too. Takes about 50 us. Allocates nothing, is no
 * cancellation point; any thread with 4 KiB of stack left, also inside malloc or in a forked child. errno may change.
 */
void gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
void gf_headroom_read_in(struct gf_headroom_scratch *scratch, const char *root, int node,
                         struct gf_headroom *ret);

/* Which one `bytes` is from: "memory.max", "MemAvailable", "node"; "nothing" when unknown. */
const char *gf_headroom_source(const struct gf_headroom *headroom);

#endif
