/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/stats.h"

#include "base/clock.h"

/* Shards are two cache lines apart, because processors prefetch lines in pairs. */
#define SHARDS 16

/* The number of the calling thread's shard. */
static unsigned own_shard(void)
{
    static _Atomic unsigned next;
    static __thread unsigned shard; /* counted from 1 */
    if (gf_unlikely(!shard))
        shard = gf_add_relaxed(&next, 1) % SHARDS + 1;
    return shard - 1;
}

/* All counters in struct gf_copy_stats have the same width, so an index identifies a counter. */
#define COUNTERS (sizeof(struct gf_copy_stats) / sizeof(uint64_t))
#define COUNTER(field) (offsetof(struct gf_copy_stats, field) / sizeof(uint64_t))
#define COUNTER_OF_COPY(field) (offsetof(struct gf_copy_counts, field) / sizeof(uint64_t))

static struct shard {
    _Alignas(128) _Atomic uint64_t counter[COUNTERS];
} shards[SHARDS];

static _Atomic uint64_t ring_bytes, ring_most;

_Atomic uint64_t *gf_copy_counters(void)
{
    return shards[own_shard()].counter;
}

/* Counts a call and its bytes. `counts` points to the counters of a struct gf_copy_counts. */
static void count_copy(_Atomic uint64_t *counts, uint64_t bytes)
{
    gf_add_relaxed(&counts[COUNTER_OF_COPY(calls)], 1);
    gf_add_relaxed(&counts[COUNTER_OF_COPY(bytes)], gf_bytes_counted(bytes));
}

static void count_time(_Atomic uint64_t *counts, uint64_t bytes, uint64_t ns)
{
    gf_add_relaxed(&counts[COUNTER_OF_COPY(timed_bytes)], gf_bytes_counted(bytes));
    gf_add_relaxed(&counts[COUNTER_OF_COPY(timed_ns)], ns);
}

void gf_copy_stats_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    _Atomic uint64_t *counts = gf_copy_counters() + COUNTER(staged[kind.direction][kind.async]);
    count_copy(counts, bytes);
    count_time(counts, bytes, ns);
}

void gf_copy_stats_rest(enum gf_direction direction, uint64_t bytes)
{
    count_copy(gf_copy_counters() + COUNTER(rest[direction]), bytes);
}

void gf_copy_stats_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes)
{
    count_copy(gf_copy_counters() + COUNTER(bypassed[kind.direction][kind.async][reason]), bytes);
}

void gf_copy_stats_driver_time(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes,
                               uint64_t ns)
{
    count_time(gf_copy_counters() + COUNTER(bypassed[kind.direction][kind.async][reason]), bytes,
               ns);
}

void gf_copy_stats_ring_grown(uint64_t bytes)
{
    const uint64_t now = gf_add_relaxed(&ring_bytes, bytes) + bytes;
    uint64_t most = gf_load_relaxed(&ring_most);

    gf_copy_stats_add(ring_grown, 1);
    while (now > most && !gf_cas_relaxed(&ring_most, &most, now))
        continue;
}

void gf_copy_stats_ring_shrunk(uint64_t bytes, bool dropped)
{
    gf_sub_relaxed(&ring_bytes, bytes);
    if (!dropped)
        gf_copy_stats_add(ring_shrunk, 1);
}

uint64_t gf_copy_stats_ring_most(void)
{
    return gf_load_relaxed(&ring_most);
}

void gf_copy_stats_read(struct gf_copy_stats *ret)
{
    uint64_t *sums = (uint64_t *)ret;
    *ret = (struct gf_copy_stats){0};
    for (size_t i = 0; i < SHARDS; i++)
        for (size_t k = 0; k < COUNTERS; k++)
            sums[k] += gf_load_relaxed(&shards[i].counter[k]);
}

const char *gf_bypass_name(enum gf_bypass reason)
{
    static const char *const names[] = {
#define GF_REASON(name, words, remedy) #name,
#include "abi/reasons.def"
    };
    return names[reason];
}

const char *gf_bypass_text(enum gf_bypass reason)
{
    static const char *const texts[] = {
#define GF_REASON(name, words, remedy) words,
#include "abi/reasons.def"
    };
    return texts[reason];
}

#define ROWS 8

static struct longest_shard {
    _Alignas(128) _Atomic uint64_t least_ns; /* only copies that took longer are recorded */
    _Atomic bool taken; /* a thread uses the members below, for less than a microsecond */
    size_t count;
    struct gf_long_copy rows[ROWS];
} longest_shards[SHARDS];

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
    static const char *const names[gf_copy_group_count] = {
        [gf_copy_group_staged] = "staged",
        [gf_copy_group_pinned] = "pinned",
        [gf_copy_group_driver] = "driver",
        [gf_copy_group_other] = "other",
    };
    return names[group];
}

void gf_longest_copies_start(void)
{
    gf_store_relaxed(&wanted, true);
}

static size_t shortest_row(const struct longest_shard *longest_shard)
{
    size_t shortest = 0;

    for (size_t i = 1; i < longest_shard->count; i++)
        if (longest_shard->rows[i].ns < longest_shard->rows[shortest].ns)
            shortest = i;
    return shortest;
}

void gf_longest_copies_add(enum gf_direction direction, enum gf_bypass reason, uint64_t bytes,
                           uint64_t ns)
{
    if (!gf_load_relaxed(&wanted))
        return;
    struct longest_shard *longest_shard = &longest_shards[own_shard()];
    if (ns <= gf_load_relaxed(&longest_shard->least_ns) ||
        gf_exchange_acquire(&longest_shard->taken, true))
        return;
    const size_t row =
        longest_shard->count < ROWS ? longest_shard->count++ : shortest_row(longest_shard);
    longest_shard->rows[row] = (struct gf_long_copy){
        .end_ns = gf_now_ns(),
        .ns = ns,
        .bytes = bytes,
        .tid = gettid(),
        .direction = direction,
        .group = gf_copy_group(reason),
    };
    if (longest_shard->count == ROWS)
        gf_store_relaxed(&longest_shard->least_ns,
                         longest_shard->rows[shortest_row(longest_shard)].ns);
    gf_store_release(&longest_shard->taken, false);
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
        struct longest_shard *longest_shard = &longest_shards[i];
        if (gf_exchange_acquire(&longest_shard->taken, true))
            continue; /* the shard is in use; its copies are taken at the next call */
        for (size_t k = 0; k < longest_shard->count; k++)
            count = insert(ret, count, max, &longest_shard->rows[k]);
        longest_shard->count = 0;
        gf_store_relaxed(&longest_shard->least_ns, 0);
        gf_store_release(&longest_shard->taken, false);
    }
    return count;
}

const char *gf_pinned_reason_name(enum gf_pinned_reason reason)
{
    static const char *const names[GF_PINNED_REASONS] = {
        [gf_pinned_odd] = "size or flags",    [gf_pinned_context] = "context",
        [gf_pinned_memory] = "memory",        [gf_pinned_slow] = "too few threads",
        [gf_pinned_devices] = "several GPUs", [gf_pinned_failed] = "off after a failure",
    };
    return names[reason];
}
