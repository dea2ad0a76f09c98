/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step_series.h"

#define PARTS GF_STEP_PARTS
#define BUCKETS GF_STEP_BUCKETS
#define LEAST_STEPS 10u
/* Events of one step may repeat within a short time; the step is the longer interval. */
#define SAME_STEP 4u
#define OLD_NS UINT64_C(2000000000)
#define OLD_INTERVALS 4u /* a series may end after this many mean intervals without an event */
#define OLD_SHARE 4u     /* and after this part of its span */

static unsigned bucket_of(uint64_t ns)
{
    if (ns < UINT64_C(1) << GF_STEP_FIRST_POWER)
        return 0;
    const unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    const unsigned part = (unsigned)(ns >> (power - 4) & (PARTS - 1));
    return gf_min((power - GF_STEP_FIRST_POWER) * PARTS + part, BUCKETS - 1u);
}

/* The middle of a bucket. */
static uint64_t bucket_ns(unsigned bucket)
{
    const unsigned power = GF_STEP_FIRST_POWER + bucket / PARTS;
    return (UINT64_C(1) << power) +
           (2 * (uint64_t)(bucket % PARTS) + 1) * (UINT64_C(1) << (power - 5));
}

static void keep_longest(struct gf_step_series *series, uint64_t start_ns, uint64_t ns)
{
    unsigned at = GF_STEPS_LONGEST - 1;

    if (ns <= series->longest[at].ns)
        return;
    for (; at && series->longest[at - 1].ns < ns; at--)
        series->longest[at] = series->longest[at - 1];
    series->longest[at] = (struct gf_slow_step){start_ns, ns};
}

void gf_step_series_add(struct gf_step_series *series, uint64_t now, bool known)
{
    if (!series->first_ns)
        series->first_ns = now;
    if (series->last_ns && now > series->last_ns && known) {
        const uint64_t ns = now - series->last_ns;
        series->bucket[bucket_of(ns)]++;
        series->count++;
        keep_longest(series, series->last_ns, ns);
    }
    series->last_ns = now;
}

uint64_t gf_step_series_span(const struct gf_step_series *series)
{
    return series->last_ns - series->first_ns;
}

bool gf_step_series_is_over(const struct gf_step_series *series, uint64_t now)
{
    const uint64_t span = gf_step_series_span(series);
    const uint64_t mean = span / gf_max(series->count, UINT64_C(1));

    return now >= series->last_ns + gf_max(OLD_NS, gf_max(OLD_INTERVALS * mean, span / OLD_SHARE));
}

/* The bucket in which the intervals from `first` on reach this many. */
static unsigned bucket_at(const struct gf_step_series *series, unsigned first, uint64_t wanted)
{
    uint64_t seen = 0;

    for (unsigned i = first; i < BUCKETS; i++)
        if ((seen += series->bucket[i]) >= wanted && seen)
            return i;
    return BUCKETS - 1;
}

/*
 * The first bucket whose intervals are steps. Half of the time lies in intervals of at least a
 * certain length. Much shorter ones lie between events of the same step.
 */
static unsigned first_bucket(const struct gf_step_series *series)
{
    uint64_t total = 0, seen = 0;
    unsigned i = BUCKETS;

    if (series->source == gf_step_marks)
        return 0;
    for (unsigned j = 0; j < BUCKETS; j++)
        total += series->bucket[j] * bucket_ns(j);
    while (i > 1 && 2 * seen < total) {
        i--;
        seen += series->bucket[i] * bucket_ns(i);
    }
    return bucket_of(bucket_ns(i) / SAME_STEP);
}

static uint64_t percentile(const struct gf_step_series *series, unsigned first, uint64_t wanted,
                           const struct gf_step_times *times)
{
    return gf_min(bucket_ns(bucket_at(series, first, wanted)), times->max_ns);
}

bool gf_step_series_read(const struct gf_step_series *series, struct gf_step_times *ret)
{
    const unsigned first = first_bucket(series);

    *ret = (struct gf_step_times){.source = series->source, .max_ns = series->longest[0].ns};
    for (unsigned i = first; i < BUCKETS; i++) {
        ret->steps += series->bucket[i];
        ret->total_ns += series->bucket[i] * bucket_ns(i);
    }
    ret->p50_ns = percentile(series, first, (ret->steps + 1) / 2, ret);
    ret->p99_ns = percentile(series, first, (ret->steps * 99 + 99) / 100, ret);
    for (unsigned i = 0; i < GF_STEPS_LONGEST; i++)
        if (2 * series->longest[i].ns > 3 * ret->p50_ns)
            ret->slow[i] = series->longest[i];
    if (series->source == gf_step_marks)
        return ret->steps > 0;
    ret->bytes = series->source == gf_step_copies ? series->key : 0;
    const uint64_t low = bucket_ns(bucket_at(series, first, (ret->steps + 3) / 4)),
                   high = bucket_ns(bucket_at(series, first, (3 * ret->steps + 3) / 4));
    return ret->steps >= LEAST_STEPS && (high - low) * 10 < 3 * ret->p50_ns;
}
