/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step_times.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <sched.h>
#include <string.h>

#define SERIES 16u
#define PARTS 16u /* buckets for each power of two */
#define FIRST_POWER 14u
#define POWERS 28u /* from 16 us to an hour */
#define BUCKETS (PARTS * POWERS)
#define LEAST_STEPS 10u
#define LEAST_SHARE 4u /* a series must span this part of the time of all series */
/* Events of one step may repeat within a short time; the step is the longer interval. */
#define SAME_STEP 4u
#define OLD_NS UINT64_C(2000000000)
#define READ_NS UINT64_C(10000000) /* the longest wait of a reader for the lock */

/* The intervals between equal events. */
struct series {
    enum gf_step_source source; /* gf_step_none: free */
    uint64_t key;               /* the copy's size, or the address of the function's name */
    uint64_t first_ns, last_ns; /* last_ns 0: no step is open */
    uint64_t count;
    unsigned lost; /* steps.lost at the last event */
    uint32_t bucket[BUCKETS];
    struct gf_slow_step longest[GF_STEPS_LONGEST]; /* longest first */
};

static struct {
    _Atomic bool busy;
    _Atomic unsigned lost; /* events that found the lock taken, so that they are in no series */
    /* The keys of `series`, beside each other, because each event compares them. */
    uint64_t key[SERIES];
    struct series marks, series[SERIES];
} steps;

static bool try_lock(void)
{
    bool busy = false;
    return gf_cas_acquire(&steps.busy, &busy, true);
}

static void unlock(void)
{
    gf_store_release(&steps.busy, false);
}

/* False: another thread holds the lock, and the event is lost. */
static bool lock_for_event(void)
{
    if (try_lock())
        return true;
    gf_add_relaxed(&steps.lost, 1);
    return false;
}

static unsigned step_bucket(uint64_t ns)
{
    if (ns < UINT64_C(1) << FIRST_POWER)
        return 0;
    const unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    const unsigned part = (unsigned)(ns >> (power - 4) & (PARTS - 1));
    return gf_min((power - FIRST_POWER) * PARTS + part, BUCKETS - 1u);
}

/* The middle of a bucket. */
static uint64_t bucket_ns(unsigned bucket)
{
    const unsigned power = FIRST_POWER + bucket / PARTS;
    return (UINT64_C(1) << power) +
           (2 * (uint64_t)(bucket % PARTS) + 1) * (UINT64_C(1) << (power - 5));
}

static void keep_longest(struct series *series, uint64_t start_ns, uint64_t ns)
{
    unsigned at = GF_STEPS_LONGEST - 1;

    if (ns <= series->longest[at].ns)
        return;
    for (; at && series->longest[at - 1].ns < ns; at--)
        series->longest[at] = series->longest[at - 1];
    series->longest[at] = (struct gf_slow_step){start_ns, ns};
}

/*
 * An interval in which an event may be missing is not counted, because it would look like a slow
 * step.
 */
static void add_event(struct series *series, uint64_t now)
{
    const unsigned lost = gf_load_relaxed(&steps.lost);

    if (!series->first_ns)
        series->first_ns = now;
    if (series->last_ns && now > series->last_ns && lost == series->lost) {
        const uint64_t ns = now - series->last_ns;
        series->bucket[step_bucket(ns)]++;
        series->count++;
        keep_longest(series, series->last_ns, ns);
    }
    series->last_ns = now;
    series->lost = lost;
}

/*
 * The series of the event. A model's parameters are copied once each, so a series of few events
 * that has not continued is replaced.
 */
static struct series *series_of(enum gf_step_source source, uint64_t key, uint64_t now)
{
    struct series *least = &steps.series[0];

    for (unsigned i = 0; i < SERIES; i++)
        if (steps.key[i] == key && steps.series[i].source == source)
            return &steps.series[i];
    for (unsigned i = 1; i < SERIES; i++)
        if (steps.series[i].count < least->count)
            least = &steps.series[i];
    if (least->source != gf_step_none &&
        (now < least->last_ns + OLD_NS || least->count >= LEAST_STEPS))
        return NULL;
    memset(least, 0, sizeof(*least));
    least->source = source;
    least->key = key;
    steps.key[least - steps.series] = key;
    return least;
}

static void add_to(enum gf_step_source source, uint64_t key, uint64_t now)
{
    if (!lock_for_event())
        return;
    struct series *series = series_of(source, key, now);
    if (series)
        add_event(series, now);
    unlock();
}

void gf_step_times_mark(uint64_t now, bool ends, bool begins)
{
    if (!lock_for_event())
        return;
    steps.marks.source = gf_step_marks;
    if (!ends)
        steps.marks.last_ns = 0;
    add_event(&steps.marks, now);
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

/* The bucket in which the events from `first` on reach this many. */
static unsigned bucket_at(const struct series *series, unsigned first, uint64_t wanted)
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
static unsigned first_bucket(const struct series *series)
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
    return step_bucket(bucket_ns(i) / SAME_STEP);
}

/* False if the intervals are too few or too uneven. */
static bool read_series(const struct series *series, struct gf_step_times *ret)
{
    const unsigned first = first_bucket(series);

    *ret = (struct gf_step_times){.source = series->source, .max_ns = series->longest[0].ns};
    for (unsigned i = first; i < BUCKETS; i++) {
        ret->steps += series->bucket[i];
        ret->total_ns += series->bucket[i] * bucket_ns(i);
    }
    ret->p50_ns = gf_min(bucket_ns(bucket_at(series, first, (ret->steps + 1) / 2)), ret->max_ns);
    ret->p99_ns =
        gf_min(bucket_ns(bucket_at(series, first, (ret->steps * 99 + 99) / 100)), ret->max_ns);
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

static uint64_t span_of(const struct series *series)
{
    return series->last_ns - series->first_ns;
}

/* Whether the event is a better sign of steps: copies first, then a longer time, then more bytes. */
static bool is_better(const struct series *a, const struct series *b)
{
    if (a->source != b->source)
        return a->source < b->source;
    if (a->source == gf_step_copies && span_of(a) + span_of(a) / 8 > span_of(b) &&
        span_of(b) + span_of(b) / 8 > span_of(a))
        return a->key > b->key;
    return span_of(a) > span_of(b);
}

static void detect_steps(struct gf_step_times *ret)
{
    const struct series *best = NULL;
    uint64_t first = UINT64_MAX, last = 0;

    for (unsigned i = 0; i < SERIES; i++)
        if (steps.series[i].source != gf_step_none) {
            first = gf_min(first, steps.series[i].first_ns);
            last = gf_max(last, steps.series[i].last_ns);
        }
    for (unsigned i = 0; i < SERIES; i++) {
        const struct series *one = &steps.series[i];
        struct gf_step_times found;
        if (one->source == gf_step_none || LEAST_SHARE * span_of(one) < last - first ||
            (best && !is_better(one, best)) || !read_series(one, &found))
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
    while (!(locked = try_lock()) && gf_now_ns() < until)
        sched_yield();
    if (!locked)
        return;
    if (!read_series(&steps.marks, ret)) {
        *ret = (struct gf_step_times){.source = gf_step_none};
        detect_steps(ret);
    }
    unlock();
}
