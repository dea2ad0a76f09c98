/* SPDX-License-Identifier: Apache-2.0 */
#include "os/headroom.h"

#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>

#define UNKNOWN GF_HEADROOM_UNKNOWN

/* A limit of at least this number means "unlimited" in version 1. */
#define UNLIMITED (UINT64_C(1) << 62)

struct names {
    const char *limits[2];
    const char *usage;
    const char *inactive, *active; /* keys of memory.stat whose values include the child groups */
};

static const struct names names_v2 = {
    {"memory.max", "memory.high"}, "memory.current", "inactive_file", "active_file"};
static const struct names names_v1 = {{"memory.limit_in_bytes", NULL},
                                      "memory.usage_in_bytes",
                                      "total_inactive_file",
                                      "total_active_file"};

/*
 * Returns the number in a file of the group; UNKNOWN if the text is "max" or the file is missing.
 */
static uint64_t read_limit(const struct gf_cgroup_walk *walk, const char *file)
{
    char text[32], *end;

    if (gf_cgroup_read(walk, file, text, sizeof(text)) <= 0)
        return UNKNOWN;
    const uint64_t value = strtoull(text, &end, 10);
    return end == text || value >= UNLIMITED ? UNKNOWN : value;
}

/*
 * Returns how many bytes of file pages the kernel can reclaim. Only half of the active file pages
 * are counted, because they may be the program's input.
 */
static uint64_t reclaimable_bytes(uint64_t inactive, uint64_t active)
{
    return inactive + active / 2;
}

static void read_group_headroom(struct gf_headroom_scratch *scratch, struct gf_headroom *ret)
{
    const struct gf_cgroup_walk *walk = &scratch->walk;
    const struct names *names = *walk->place->controller ? &names_v1 : &names_v2;
    const char *file = NULL;
    uint64_t limit = UNKNOWN;

    for (size_t i = 0; i < GF_ARRAY_LEN(names->limits) && names->limits[i]; i++) {
        const uint64_t value = read_limit(walk, names->limits[i]);
        if (value < limit) {
            limit = value;
            file = names->limits[i];
        }
    }
    const uint64_t used = file ? read_limit(walk, names->usage) : UNKNOWN;
    if (used == UNKNOWN)
        return;
    uint64_t reclaimable = 0;
    if (gf_cgroup_read(walk, "memory.stat", scratch->text, sizeof(scratch->text)) > 0)
        reclaimable = reclaimable_bytes(gf_procfs_value(scratch->text, names->inactive),
                                        gf_procfs_value(scratch->text, names->active));
    const uint64_t held = used - gf_min(used, reclaimable), left = limit - gf_min(limit, held);
    if (left < ret->cgroup) {
        ret->cgroup = left;
        ret->limit = limit;
        ret->cgroup_file = file;
    }
}

/*
 * Returns the value of the key in bytes. A line of the text is like "Node 0 MemFree:   123 kB"; in
 * /proc/meminfo the first two words are missing.
 */
static uint64_t meminfo_bytes(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) << 10 : UNKNOWN;
}

static void read_host(struct gf_headroom_scratch *scratch, const char *root, int node,
                      struct gf_headroom *ret)
{
    char *const text = scratch->text;

    if (gf_procfs_read(text, sizeof(scratch->text), root, "proc/meminfo") > 0)
        ret->host = meminfo_bytes(text, "MemAvailable:");
    if (node < 0 || gf_procfs_read(text, sizeof(scratch->text), root,
                                   "sys/devices/system/node/node%d/meminfo", node) <= 0)
        return;
    const uint64_t unused = meminfo_bytes(text, "MemFree:"),
                   active = meminfo_bytes(text, " Active(file):"),
                   inactive = meminfo_bytes(text, " Inactive(file):");
    if (unused != UNKNOWN && active != UNKNOWN && inactive != UNKNOWN)
        ret->node = unused + reclaimable_bytes(inactive, active);
}

static const struct gf_headroom unknown = {
    .bytes = UNKNOWN, .cgroup = UNKNOWN, .host = UNKNOWN, .node = UNKNOWN, .limit = UNKNOWN};

struct reading {
    struct gf_headroom_scratch *scratch;
    const char *root;
    int node;
    struct gf_headroom *ret;
};

static void read_headroom(void *closure)
{
    const struct reading *reading = closure;
    struct gf_headroom_scratch *scratch = reading->scratch;
    const char *root = reading->root;
    struct gf_headroom *ret = reading->ret;

    scratch->walk = (struct gf_cgroup_walk){.root = root, .place = gf_cgroup_memory_places};
    while (gf_cgroup_next(&scratch->walk))
        read_group_headroom(scratch, ret);
    read_host(scratch, root, reading->node, ret);
    ret->bytes = gf_min(ret->cgroup, gf_min(ret->host, ret->node));
}

void gf_headroom_read_in(struct gf_headroom_scratch *scratch, const char *root, int node,
                         struct gf_headroom *ret)
{
    struct reading reading = {scratch, root, node, ret};

    *ret = unknown;
    gf_own_table_run(read_headroom, &reading);
}

void gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    struct gf_headroom_scratch *scratch = gf_scratch_take(sizeof(*scratch));

    *ret = unknown;
    if (scratch)
        gf_headroom_read_in(scratch, root, node, ret);
    gf_scratch_give(scratch, sizeof(*scratch));
}

const char *gf_headroom_source(const struct gf_headroom *headroom)
{
    if (headroom->bytes == UNKNOWN)
        return "nothing";
    if (headroom->bytes == headroom->cgroup)
        return headroom->cgroup_file;
    return headroom->bytes == headroom->host ? "MemAvailable" : "node";
}
