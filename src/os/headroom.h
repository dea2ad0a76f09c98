/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the headroom: how much more memory this process can use before it reaches a limit. Clean
 * file pages and lazily freed pages count as free, because the kernel reclaims them at once.
 */
#pragma once

#include "base/base.h"
#include "os/cgroup.h"

#define GF_HEADROOM_UNKNOWN UINT64_MAX

struct gf_headroom {
    /* The smallest of cgroup, host and node; GF_HEADROOM_UNKNOWN if none could be read. */
    uint64_t bytes;
    uint64_t cgroup; /* the least headroom of the process's group and its visible parents */
    uint64_t host;   /* MemAvailable of the host */
    uint64_t node;   /* free memory on the requested node */
    /* Memory limit of the group with the least headroom; GF_HEADROOM_UNKNOWN if unlimited. */
    uint64_t limit;
    /* File that contains `limit`: "memory.max", "memory.high", ...; or NULL. */
    const char *cgroup_file;
};

/*
 * The buffers of a call of gf_headroom_read_in. The caller provides them, because it may have
 * little stack left.
 */
struct gf_headroom_scratch {
    char text[4096];
    struct gf_cgroup_walk walk;
};

/*
 * Reads the headroom. root: see os/procfs.h. node: a node whose free memory also limits the
 * headroom, or -1. A call takes about 50 us, allocates nothing, and is not a cancellation point. It
 * may be made on any thread with 4 KiB of stack left, inside malloc and in a forked child. errno
 * may change.
 */
void gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
/* Like gf_headroom_read, but uses the caller's buffers. */
void gf_headroom_read_in(struct gf_headroom_scratch *scratch, const char *root, int node,
                         struct gf_headroom *ret);

/*
 * Returns the name of the limit that determines headroom->bytes: "memory.max", "MemAvailable",
 * "node" and so on; "nothing" if unknown.
 */
const char *gf_headroom_source(const struct gf_headroom *headroom);
