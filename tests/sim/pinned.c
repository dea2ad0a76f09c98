/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of pinned memory: shared mappings of /dev/zero, so that a forked child's writes are
 * visible to its parent. Blocks of a context below 2 MiB share a mapping of 2 MiB, which is unmapped with
 * its last block. Until then, a reused block holds its old bytes. Such blocks begin at any
 * granule, and have the flags of the block for which their mapping was created. Larger blocks have
 * separate mappings of whole 2 MiB. All of this was measured on the driver.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK ((size_t)2 << 20)
#define GRANULE ((size_t)256)
#define GRANULES (CHUNK / GRANULE)

struct chunk {
    struct chunk *next;
    char *at;
    size_t used;
    struct sim_context *context;
    unsigned flags;
    bool taken[GRANULES];
};

static struct chunk *chunks;

static char *map_zero(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    sim_file(sim_file_zero), 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Returns the first free run that is long enough, or GRANULES if there is none. */
static size_t find_run(const struct chunk *chunk, size_t granules)
{
    for (size_t i = 0, run = 0; i < GRANULES; i++) {
        run = chunk->taken[i] ? 0 : run + 1;
        if (run == granules)
            return i + 1 - granules;
    }
    return GRANULES;
}

static struct chunk *chunk_for(const struct sim_range *range, size_t granules, size_t *ret_first)
{
    struct chunk *chunk;
    for (chunk = chunks; chunk; chunk = chunk->next)
        if (chunk->context == range->context && (*ret_first = find_run(chunk, granules)) < GRANULES)
            return chunk;
    chunk = calloc(1, sizeof *chunk);
    if (!chunk || !(chunk->at = map_zero(CHUNK))) {
        free(chunk);
        return NULL;
    }
    chunk->context = range->context;
    chunk->flags = range->flags;
    chunk->next = chunks;
    chunks = chunk;
    *ret_first = 0;
    return chunk;
}

bool sim_pinned_alloc(struct sim_range *range, size_t size, bool apart)
{
    apart |= size > CHUNK - SIM_PAGE;
    const size_t unit = apart ? CHUNK : GRANULE, mapped = (size + unit - 1) & ~(unit - 1);
    if (mapped < size)
        return false;
    if (apart) {
        range->backing = map_zero(mapped);
        range->map_start = (uintptr_t)range->backing;
        range->map_size = mapped;
    } else {
        size_t first;
        struct chunk *chunk = chunk_for(range, mapped / GRANULE, &first);
        if (!chunk)
            return false;
        memset(chunk->taken + first, true, mapped / GRANULE);
        chunk->used += mapped;
        range->backing = chunk->at + first * GRANULE;
        range->flags = chunk->flags;
        range->map_start = (uintptr_t)chunk->at;
        range->map_size = CHUNK;
    }
    range->start = (uintptr_t)range->backing;
    range->size = size;
    range->mapped = mapped;
    return range->backing != NULL;
}

void sim_pinned_free(struct sim_range *range)
{
    struct chunk **at = &chunks;
    while (*at && (uintptr_t)(*at)->at != range->map_start)
        at = &(*at)->next;
    struct chunk *chunk = *at;
    if (!chunk) {
        munmap(range->backing, range->mapped);
        return;
    }
    memset(chunk->taken + (range->start - range->map_start) / GRANULE, false,
           range->mapped / GRANULE);
    chunk->used -= range->mapped;
    if (chunk->used == 0) {
        *at = chunk->next;
        munmap(chunk->at, CHUNK);
        free(chunk);
    }
}
