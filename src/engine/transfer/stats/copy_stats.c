/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/stats/copy_stats.h"

#include "base/atomic.h"

#define SHARDS 16

/* All counters in struct gf_copy_stats have the same width, so an index identifies a counter. */
#define COUNTERS (sizeof(struct gf_copy_stats) / sizeof(uint64_t))
#define COUNTER(field) (offsetof(struct gf_copy_stats, field) / sizeof(uint64_t))
#define COUNTER_OF_COPY(field) (offsetof(struct gf_copy_counts, field) / sizeof(uint64_t))

/* Shards are two cache lines apart, because processors prefetch lines in pairs. */
static struct shard {
    _Alignas(128) _Atomic uint64_t counter[COUNTERS];
} shards[SHARDS];

static _Atomic uint64_t ring_bytes, ring_most;

static _Atomic uint64_t *own_counters(void)
{
    static _Atomic unsigned next;
    static __thread unsigned shard; /* counted from 1 */
    if (gf_unlikely(!shard))
        shard = gf_add_relaxed(&next, 1) % SHARDS + 1;
    return shards[shard - 1].counter;
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
    _Atomic uint64_t *counts = own_counters() + COUNTER(staged[kind.direction][kind.async]);
    count_copy(counts, bytes);
    count_time(counts, bytes, ns);
}

void gf_copy_stats_rest(enum gf_direction direction, uint64_t bytes)
{
    count_copy(own_counters() + COUNTER(rest[direction]), bytes);
}

void gf_copy_stats_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes)
{
    count_copy(own_counters() + COUNTER(bypassed[kind.direction][kind.async][reason]), bytes);
}

void gf_copy_stats_driver_time(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes,
                               uint64_t ns)
{
    count_time(own_counters() + COUNTER(bypassed[kind.direction][kind.async][reason]), bytes, ns);
}

void gf_copy_stats_stream_wait(void)
{
    gf_add_relaxed(own_counters() + COUNTER(stream_waits), 1);
}

void gf_copy_stats_ring_grown(uint64_t bytes)
{
    const uint64_t now = gf_add_relaxed(&ring_bytes, bytes) + bytes;
    uint64_t most = gf_load_relaxed(&ring_most);

    gf_add_relaxed(own_counters() + COUNTER(ring_grown), 1);
    while (now > most && !gf_cas_relaxed(&ring_most, &most, now))
        continue;
}

void gf_copy_stats_ring_shrunk(uint64_t bytes, bool dropped)
{
    gf_sub_relaxed(&ring_bytes, bytes);
    if (!dropped)
        gf_add_relaxed(own_counters() + COUNTER(ring_shrunk), 1);
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
#define GF_BYPASS_NAME(token, words) #token,
        GF_BYPASS_REASONS(GF_BYPASS_NAME)
#undef GF_BYPASS_NAME
    };
    return names[reason];
}

const char *gf_bypass_text(enum gf_bypass reason)
{
    static const char *const texts[] = {
#define GF_BYPASS_TEXT(token, words) words,
        GF_BYPASS_REASONS(GF_BYPASS_TEXT)
#undef GF_BYPASS_TEXT
    };
    return texts[reason];
}
