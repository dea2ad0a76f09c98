/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step_times.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/trace/step_series.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define SERIES 16u
#define LEAST_SHARE 4u             /* a series must span this part of the time of all series */
#define READ_NS UINT64_C(10000000) /* the longest wait of a reader for the lock */

static struct {
    /* Id of the process whose thread holds the lock; 0: no thread holds it. */
    _Atomic pid_t holder;
    _Atomic unsigned lost; /* events that found the lock taken, so that they are in no series */
    /* The keys of `series`, beside each other, because each event compares them. */
    uint64_t key[SERIES];
    unsigned lost_before[SERIES + 1]; /* `lost` at each series' last event; the last: marks */
    struct gf_step_series marks, series[SERIES];
    struct gf_step_facts sums; /* the facts until now; the engine's part, until published_ns */
    uint64_t published_ns;
} steps;

static _Atomic uint64_t stalled_ns[GF_CAUSE_COUNT];

/*
 * In a forked child, the holder may be a thread of the parent, which does not exist in the child.
 * So the child takes the lock.
 */
static bool try_lock(void)
{
    const pid_t pid = getpid();
    pid_t before = 0;

    if (gf_cas_acquire(&steps.holder, &before, pid))
        return true;
    return before != pid && gf_cas_acquire(&steps.holder, &before, pid);
}

static void unlock(void)
{
    gf_store_release(&steps.holder, 0);
}

/* False: another thread holds the lock, and the event is lost. */
static bool lock_for_event(void)
{
    if (try_lock())
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
        if (gf_step_series_is_over(one, now) &&
            (least == SERIES ||
             gf_step_series_span(one) < gf_step_series_span(&steps.series[least])))
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
    if (!try_lock())
        return;
    memcpy(&steps.sums.value[GF_CAUSE_COUNT], facts, GF_STEP_ENGINE_FACTS * sizeof(*facts));
    steps.published_ns = now;
    gf_step_series_settle(&steps.marks, now, &steps.sums);
    for (unsigned i = 0; i < SERIES; i++)
        gf_step_series_settle(&steps.series[i], now, &steps.sums);
    unlock();
}

void gf_step_times_graph(uint64_t ns, uint64_t graph)
{
    add_to(gf_step_graphs, graph, ns);
}

/* Whether the event is a better sign of steps: copies first, then a longer time, then more bytes. */
static bool is_better(const struct gf_step_series *a, const struct gf_step_series *b)
{
    const uint64_t span_a = gf_step_series_span(a), span_b = gf_step_series_span(b);

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
        if (one->source == gf_step_none || LEAST_SHARE * gf_step_series_span(one) < last - first ||
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
    while (!(locked = try_lock()) && gf_now_ns() < until)
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
