/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step_times.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <sched.h>

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

static void add_engine_facts(struct gf_step_facts *to, const struct gf_step_facts *sums)
{
    for (unsigned i = GF_CAUSE_COUNT; i < GF_STEP_FACTS; i++)
        to->value[i] += sums->value[i];
}

static void keep_longest(struct gf_step_series *series, uint64_t start_ns, uint64_t ns,
                         const struct gf_step_facts *rise)
{
    unsigned at = GF_STEPS_LONGEST - 1;

    if (series->longest[at].ns >= ns)
        return;
    for (; at && series->longest[at - 1].ns < ns; at--)
        series->longest[at] = series->longest[at - 1];
    series->longest[at] = (struct gf_slow_step){.start_ns = start_ns, .ns = ns, .facts = *rise};
    for (unsigned i = GF_CAUSE_COUNT; i < GF_STEP_FACTS; i++)
        series->longest[at].facts.value[i] = -series->before.value[i];
}

static void add_interval(struct gf_step_series *series, uint64_t now,
                         const struct gf_step_facts *sums)
{
    const uint64_t ns = now - series->last_ns;
    struct gf_step_facts rise;

    for (unsigned i = 0; i < GF_STEP_FACTS; i++) {
        rise.value[i] = sums->value[i] - series->before.value[i];
        series->all.value[i] += rise.value[i];
    }
    series->bucket[bucket_of(ns)]++;
    series->count++;
    keep_longest(series, series->last_ns, ns, &rise);
}

void gf_step_series_add(struct gf_step_series *series, uint64_t now, bool known,
                        const struct gf_step_facts *sums)
{
    if (!series->first_ns)
        series->first_ns = now;
    if (series->last_ns && now > series->last_ns && known)
        add_interval(series, now, sums);
    series->last_ns = now;
    series->before = *sums;
}

/* Adds the engine's facts to the long steps that ended before `now`, the time of these sums. */
static void settle_series(struct gf_step_series *series, uint64_t now,
                          const struct gf_step_facts *sums)
{
    for (unsigned i = 0; i < GF_STEPS_LONGEST; i++) {
        struct gf_slow_step *step = &series->longest[i];
        if (step->settled || !step->ns || step->start_ns + step->ns > now)
            continue;
        add_engine_facts(&step->facts, sums);
        step->settled = true;
    }
}

/* The time from the first event to the last one. */
static uint64_t span_of(const struct gf_step_series *series)
{
    return series->last_ns - series->first_ns;
}

/*
 * Whether the events have ended, as those of a model's parameters do after the start. A pause of the
 * program, such as an evaluation, does not end a series that lasted four times as long.
 */
static bool is_over(const struct gf_step_series *series, uint64_t now)
{
    const uint64_t span = span_of(series);
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

/* A step has a typical share of what the longest steps leave of all facts. */
static void read_facts(const struct gf_step_series *series, const struct gf_step_facts *sums,
                       struct gf_step_times *ret)
{
    uint64_t others = ret->steps;

    ret->typical = series->all;
    for (unsigned i = 0; i < GF_STEPS_LONGEST && 2 * series->longest[i].ns > 3 * ret->p50_ns; i++) {
        struct gf_slow_step *slow = &ret->slow[i];
        *slow = series->longest[i];
        if (!slow->settled)
            add_engine_facts(&slow->facts, sums);
        for (unsigned k = 0; k < GF_STEP_FACTS; k++)
            ret->typical.value[k] -= gf_min(slow->facts.value[k], ret->typical.value[k]);
        others -= others > 1;
    }
    for (unsigned k = 0; k < GF_STEP_FACTS; k++)
        ret->typical.value[k] /= gf_max(others, UINT64_C(1));
}

static void read_durations(const struct gf_step_series *series, unsigned first,
                           struct gf_step_times *ret)
{
    for (unsigned i = first; i < BUCKETS; i++) {
        ret->steps += series->bucket[i];
        ret->total_ns += series->bucket[i] * bucket_ns(i);
    }
    ret->p50_ns = percentile(series, first, (ret->steps + 1) / 2, ret);
    ret->p99_ns = percentile(series, first, (ret->steps * 99 + 99) / 100, ret);
    for (unsigned i = first; i < BUCKETS; i++)
        if (2 * bucket_ns(i) > 3 * ret->p50_ns)
            ret->slow_steps += series->bucket[i];
}

/* Whether the middle half of the durations differs by less than 30 % of the median. */
static bool is_even(const struct gf_step_series *series, unsigned first,
                    const struct gf_step_times *times)
{
    const uint64_t low = bucket_ns(bucket_at(series, first, (times->steps + 3) / 4)),
                   high = bucket_ns(bucket_at(series, first, (3 * times->steps + 3) / 4));
    return (high - low) * 10 < 3 * times->p50_ns;
}

bool gf_step_series_read(const struct gf_step_series *series, const struct gf_step_facts *sums,
                         struct gf_step_times *ret)
{
    const unsigned first = first_bucket(series);

    *ret = (struct gf_step_times){
        .source = series->source, .last_ns = series->last_ns, .max_ns = series->longest[0].ns};
    read_durations(series, first, ret);
    read_facts(series, sums, ret);
    if (series->source == gf_step_marks)
        return ret->steps > 0;
    ret->bytes = series->source == gf_step_copies ? series->key : 0;
    return ret->steps >= LEAST_STEPS && is_even(series, first, ret);
}

#define SERIES 16u
#define LEAST_SHARE 4u             /* a series must span this part of the time of all series */
#define READ_NS UINT64_C(10000000) /* the longest wait of a reader for the lock */

static struct {
    _Atomic pid_t holder;  /* gf_step_try_lock */
    _Atomic unsigned lost; /* events that found the lock taken, so that they are in no series */
    /* The keys of `series`, beside each other, because each event compares them. */
    uint64_t key[SERIES];
    unsigned lost_before[SERIES + 1]; /* `lost` at each series' last event; the last: marks */
    struct gf_step_series marks, series[SERIES];
    struct gf_step_facts sums; /* the facts until now; the engine's part, until published_ns */
    uint64_t published_ns;
} steps;

static _Atomic uint64_t stalled_ns[GF_CAUSE_COUNT];

bool gf_step_try_lock(_Atomic pid_t *holder, pid_t pid)
{
    pid_t before = 0;

    if (gf_cas_acquire(holder, &before, pid))
        return true;
    return before != pid && gf_cas_acquire(holder, &before, pid);
}

static void unlock(void)
{
    gf_store_release(&steps.holder, 0);
}

/* False: another thread holds the lock, and the event is lost. */
static bool lock_for_event(void)
{
    if (gf_step_try_lock(&steps.holder, getpid()))
        return true;
    gf_add_relaxed(&steps.lost, 1);
    return false;
}

static void add_event(struct gf_step_series *series, unsigned *lost_before, uint64_t now)
{
    const unsigned lost = gf_load_relaxed(&steps.lost);

    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++)
        steps.sums.value[i] = gf_load_relaxed(&stalled_ns[i]);
    gf_step_series_add(series, now, lost == *lost_before, &steps.sums);
    *lost_before = lost;
}

/*
 * Returns a free series, or the least useful one whose events have ended. Without any, returns
 * SERIES. Steps are found only in a series that spans much of the program's time.
 */
static unsigned replaceable(uint64_t now)
{
    unsigned least = SERIES;

    for (unsigned i = 0; i < SERIES; i++) {
        const struct gf_step_series *one = &steps.series[i];
        if (one->source == gf_step_none)
            return i;
        if (is_over(one, now) && (least == SERIES || span_of(one) < span_of(&steps.series[least])))
            least = i;
    }
    return least;
}

/*
 * The number of the event's series; SERIES if all series are in use. A model's parameters are
 * copied at the start, so a series whose events have ended is replaced.
 */
static unsigned series_of(enum gf_step_source source, uint64_t key, uint64_t now)
{
    for (unsigned i = 0; i < SERIES; i++)
        if (steps.key[i] == key && steps.series[i].source == source)
            return i;
    const unsigned at = replaceable(now);
    if (at == SERIES)
        return at;
    memset(&steps.series[at], 0, sizeof(steps.series[at]));
    steps.series[at].source = source;
    steps.series[at].key = key;
    steps.key[at] = key;
    return at;
}

static void add_to(enum gf_step_source source, uint64_t key, uint64_t now)
{
    if (!lock_for_event())
        return;
    const unsigned at = series_of(source, key, now);
    if (at < SERIES)
        add_event(&steps.series[at], &steps.lost_before[at], now);
    unlock();
}

void gf_step_times_mark(uint64_t now, bool ends, bool begins)
{
    if (!lock_for_event())
        return;
    steps.marks.source = gf_step_marks;
    if (!ends)
        steps.marks.last_ns = 0;
    add_event(&steps.marks, &steps.lost_before[SERIES], now);
    if (!begins)
        steps.marks.last_ns = 0;
    unlock();
}

void gf_step_times_copy(uint64_t now, size_t bytes)
{
    add_to(gf_step_copies, bytes, now);
}

void gf_step_times_wait(uint64_t now, const char *name)
{
    add_to(gf_step_waits, (uintptr_t)name, now);
}

void gf_step_times_stall(enum gf_cause cause, uint64_t ns)
{
    gf_add_relaxed(&stalled_ns[cause], ns);
}

void gf_step_times_publish(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS])
{
    if (!gf_step_try_lock(&steps.holder, getpid()))
        return;
    memcpy(&steps.sums.value[GF_CAUSE_COUNT], facts, GF_STEP_ENGINE_FACTS * sizeof(*facts));
    steps.published_ns = now;
    settle_series(&steps.marks, now, &steps.sums);
    for (unsigned i = 0; i < SERIES; i++)
        settle_series(&steps.series[i], now, &steps.sums);
    unlock();
}

void gf_step_times_graph(uint64_t ns, uint64_t graph)
{
    add_to(gf_step_graphs, graph, ns);
}

/* Whether the event is a better sign of steps: copies first, then a longer time, then more bytes. */
static bool is_better(const struct gf_step_series *a, const struct gf_step_series *b)
{
    const uint64_t span_a = span_of(a), span_b = span_of(b);

    if (a->source != b->source)
        return a->source < b->source;
    if (a->source == gf_step_copies && span_a + span_a / 8 > span_b && span_b + span_b / 8 > span_a)
        return a->key > b->key;
    return span_a > span_b;
}

static void detect_steps(struct gf_step_times *ret)
{
    const struct gf_step_series *best = NULL;
    uint64_t first = UINT64_MAX, last = 0;

    for (unsigned i = 0; i < SERIES; i++)
        if (steps.series[i].source != gf_step_none) {
            first = gf_min(first, steps.series[i].first_ns);
            last = gf_max(last, steps.series[i].last_ns);
        }
    for (unsigned i = 0; i < SERIES; i++) {
        const struct gf_step_series *one = &steps.series[i];
        struct gf_step_times found;
        if (one->source == gf_step_none || LEAST_SHARE * span_of(one) < last - first ||
            (best && !is_better(one, best)) || !gf_step_series_read(one, &steps.sums, &found))
            continue;
        best = one;
        *ret = found;
    }
}

void gf_step_times_read(struct gf_step_times *ret)
{
    const uint64_t until = gf_now_ns() + READ_NS;
    bool locked;

    *ret = (struct gf_step_times){.source = gf_step_none};
    while (!(locked = gf_step_try_lock(&steps.holder, getpid())) && gf_now_ns() < until)
        sched_yield();
    if (!locked)
        return;
    if (!gf_step_series_read(&steps.marks, &steps.sums, ret)) {
        *ret = (struct gf_step_times){.source = gf_step_none};
        detect_steps(ret);
    }
    ret->has_facts = steps.published_ns != 0;
    unlock();
}
