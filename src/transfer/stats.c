/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/stats.h"

#define SHARDS 16

/* Two lines apart, as processors fetch pairs. */
static struct {
    _Alignas(128) struct gf_transfer_stats stats;
} shards[SHARDS];

static uint64_t ring_bytes, ring_most; /* atomic */

static struct gf_transfer_stats *own(void)
{
    static unsigned next;
    static __thread unsigned shard; /* counted from 1 */
    if (gf_unlikely(!shard))
        shard = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % SHARDS + 1;
    return &shards[shard - 1].stats;
}

static void add(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void count(struct gf_tally_copy *tally, uint64_t bytes)
{
    add(&tally->calls, 1);
    add(&tally->bytes, gf_bytes_counted(bytes));
}

static void time_it(struct gf_tally_copy *tally, uint64_t bytes, uint64_t ns)
{
    add(&tally->timed_bytes, gf_bytes_counted(bytes));
    add(&tally->timed_ns, ns);
}

void gf_stats_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    struct gf_tally_copy *tally = &own()->staged[kind.direction][kind.async];
    count(tally, bytes);
    time_it(tally, bytes, ns);
}

void gf_stats_rest(enum gf_direction direction, uint64_t bytes)
{
    count(&own()->rest[direction], bytes);
}

void gf_stats_forwarded(struct gf_copy_kind kind, enum gf_forward why, uint64_t bytes)
{
    count(&own()->forwarded[kind.direction][kind.async][why], bytes);
}

void gf_stats_timed(struct gf_copy_kind kind, enum gf_forward why, uint64_t bytes, uint64_t ns)
{
    time_it(&own()->forwarded[kind.direction][kind.async][why], bytes, ns);
}

void gf_stats_stream_wait(void)
{
    add(&own()->stream_waits, 1);
}

void gf_stats_ring_grown(uint64_t bytes)
{
    const uint64_t now = __atomic_add_fetch(&ring_bytes, bytes, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(&ring_most, __ATOMIC_RELAXED);

    add(&own()->ring_grown, 1);
    while (now > most && !__atomic_compare_exchange_n(&ring_most, &most, now, false,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

void gf_stats_ring_shrunk(uint64_t bytes, bool dropped)
{
    __atomic_fetch_sub(&ring_bytes, bytes, __ATOMIC_RELAXED);
    if (!dropped)
        add(&own()->ring_shrunk, 1);
}

uint64_t gf_stats_ring_most(void)
{
    return __atomic_load_n(&ring_most, __ATOMIC_RELAXED);
}

/* Nothing but counters of the same width stands in the struct. */
void gf_stats_read(struct gf_transfer_stats *ret)
{
    uint64_t *sums = (uint64_t *)ret;
    *ret = (struct gf_transfer_stats){0};
    for (size_t i = 0; i < SHARDS; i++) {
        const uint64_t *counters = (const uint64_t *)&shards[i].stats;
        for (size_t k = 0; k < sizeof(*ret) / sizeof(*sums); k++)
            sums[k] += __atomic_load_n(&counters[k], __ATOMIC_RELAXED);
    }
}

const char *gf_forward_name(enum gf_forward why)
{
    static const char *const names[] = {
#define GF_FORWARD_NAME(token, words) #token,
        GF_FORWARD_REASONS(GF_FORWARD_NAME)
#undef GF_FORWARD_NAME
    };
    return names[why];
}

const char *gf_forward_text(enum gf_forward why)
{
    static const char *const texts[] = {
#define GF_FORWARD_TEXT(token, words) words,
        GF_FORWARD_REASONS(GF_FORWARD_TEXT)
#undef GF_FORWARD_TEXT
    };
    return texts[why];
}
