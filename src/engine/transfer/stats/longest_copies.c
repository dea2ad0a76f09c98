/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/stats/longest_copies.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <string.h>
#include <unistd.h>

#define SHARDS 16
#define ROWS 8

/* Shards are two cache lines apart, because processors prefetch lines in pairs. */
static struct shard {
    _Alignas(128) _Atomic uint64_t least_ns; /* only copies that took longer are recorded */
    _Atomic bool taken;                      /* a thread uses the members below */
    size_t count;
    struct gf_long_copy rows[ROWS];
} shards[SHARDS];

static _Atomic bool wanted;

enum gf_copy_group gf_copy_group(enum gf_bypass reason)
{
    return reason == gf_bypass_none     ? gf_copy_group_staged
           : reason == gf_bypass_pinned ? gf_copy_group_pinned
           : reason == gf_bypass_ends   ? gf_copy_group_other
                                        : gf_copy_group_driver;
}

const char *gf_copy_group_name(enum gf_copy_group group)
{
    static const char *const names[] = {
#define GF_COPY_GROUP_NAME(token) #token,
        GF_COPY_GROUPS(GF_COPY_GROUP_NAME)
#undef GF_COPY_GROUP_NAME
    };
    return names[group];
}

void gf_longest_copies_start(void)
{
    gf_store_relaxed(&wanted, true);
}

static struct shard *own_shard(void)
{
    static _Atomic unsigned next;
    static __thread unsigned number; /* counted from 1 */
    if (gf_unlikely(!number))
        number = gf_add_relaxed(&next, 1) % SHARDS + 1;
    return &shards[number - 1];
}

/* Acquires a shard. False: another thread holds it, which lasts less than a microsecond. */
static bool take(struct shard *shard)
{
    bool taken = false;
    return gf_cas_acquire(&shard->taken, &taken, true);
}

static size_t shortest_row(const struct shard *shard)
{
    size_t shortest = 0;

    for (size_t i = 1; i < shard->count; i++)
        if (shard->rows[i].ns < shard->rows[shortest].ns)
            shortest = i;
    return shortest;
}

void gf_longest_copies_add(enum gf_direction direction, enum gf_bypass reason, uint64_t bytes,
                           uint64_t ns)
{
    if (!gf_load_relaxed(&wanted))
        return;
    struct shard *shard = own_shard();
    if (ns <= gf_load_relaxed(&shard->least_ns) || !take(shard))
        return;
    const size_t row = shard->count < ROWS ? shard->count++ : shortest_row(shard);
    shard->rows[row] = (struct gf_long_copy){
        .end_ns = gf_now_ns(),
        .ns = ns,
        .bytes = bytes,
        .tid = gettid(),
        .direction = direction,
        .group = gf_copy_group(reason),
    };
    if (shard->count == ROWS)
        gf_store_relaxed(&shard->least_ns, shard->rows[shortest_row(shard)].ns);
    gf_store_release(&shard->taken, false);
}

/*
 * Inserts a copy into a list that is sorted by duration. If the list is full, the shortest copy is
 * dropped.
 */
static size_t insert(struct gf_long_copy *list, size_t count, size_t max,
                     const struct gf_long_copy *copy)
{
    size_t at = count;

    while (at > 0 && list[at - 1].ns < copy->ns)
        at--;
    if (at == max)
        return count;
    memmove(&list[at + 1], &list[at], (gf_min(count, max - 1) - at) * sizeof(*list));
    list[at] = *copy;
    return gf_min(count + 1, max);
}

size_t gf_longest_copies_take(struct gf_long_copy *ret, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &shards[i];
        if (!take(shard))
            continue; /* the shard is in use; its copies are taken at the next call */
        for (size_t k = 0; k < shard->count; k++)
            count = insert(ret, count, max, &shard->rows[k]);
        shard->count = 0;
        gf_store_relaxed(&shard->least_ns, 0);
        gf_store_release(&shard->taken, false);
    }
    return count;
}
