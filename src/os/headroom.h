/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headroom: how much memory this process can still take before a limit. Clean file pages and lazily
 * freed pages count as free, because the kernel reclaims them at once.
 */
#ifndef GF_OS_HEADROOM_H
#define GF_OS_HEADROOM_H

#include "base/base.h"

#define GF_HEADROOM_UNKNOWN UINT64_MAX

struct gf_headroom {
    uint64_t bytes;  /* the smallest of the next three; GF_HEADROOM_UNKNOWN if none could be read */
    uint64_t cgroup; /* of the tightest group of this process and its visible parents */
    uint64_t host;   /* MemAvailable */
    uint64_t node;   /* free on the requested node */
    uint64_t limit;  /* limit of that group; GF_HEADROOM_UNKNOWN if unlimited */
    const char *cgroup_file; /* the file of that limit: "memory.max", "memory.high", ...; or NULL */
};

/* Scratch space for one caller at a time, because callers may have little stack. */
struct gf_headroom_scratch {
    char text[4096];
    char group[1024];
};

/*
 * node: -1, or a node whose free memory limits the headroom too. root: os/procfs.h. About 50 us.
 * Allocates nothing and is not a cancellation point. Any thread with 4 KiB of stack left, also
 * inside malloc or in a forked child. errno may change.
 */
void gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
/* False if nothing could be tried now (os/own_table.h); a later call may succeed. */
bool gf_headroom_read_in(struct gf_headroom_scratch *scratch, const char *root, int node,
                         struct gf_headroom *ret);

/* The limit that determines `bytes`: "memory.max", "MemAvailable", "node"; "nothing" if unknown. */
const char *gf_headroom_source(const struct gf_headroom *headroom);

#endif
