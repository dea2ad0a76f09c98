/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headroom: how much more memory this process can use before it reaches a limit. Clean file pages
 * and lazily freed pages count as free, because the kernel reclaims them at once.
 */
#ifndef GF_OS_HEADROOM_H
#define GF_OS_HEADROOM_H

#include "base/base.h"

#define GF_HEADROOM_UNKNOWN UINT64_MAX

struct gf_headroom {
    uint64_t bytes;  /* the smallest of the next three; GF_HEADROOM_UNKNOWN if none could be read */
    uint64_t cgroup; /* the least headroom of the process's group and its visible parents */
    uint64_t host;   /* MemAvailable */
    uint64_t node;   /* free memory on the requested node */
    /* Memory limit of the group with the least headroom; GF_HEADROOM_UNKNOWN if unlimited. */
    uint64_t limit;
    const char *cgroup_file; /* file of `limit`: "memory.max", "memory.high", ...; or NULL */
};

/* Buffers for one call, because callers may have little stack left. */
struct gf_headroom_scratch {
    char text[4096];
    char group[1024];
};

/*
 * node: a node whose free memory also limits the headroom, or -1. root: os/procfs.h. Takes about 50
 * us. Allocates nothing, and is not a cancellation point. Any thread with 4 KiB of stack left, also
 * inside malloc or in a forked child. errno may change.
 */
void gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
/*
 * The same with the caller's buffers. False if the files could not be read now (os/own_table.h); a
 * later call may succeed.
 */
bool gf_headroom_read_in(struct gf_headroom_scratch *scratch, const char *root, int node,
                         struct gf_headroom *ret);

/* Which limit determines `bytes`: "memory.max", "MemAvailable", "node"; "nothing" if unknown. */
const char *gf_headroom_source(const struct gf_headroom *headroom);

#endif
