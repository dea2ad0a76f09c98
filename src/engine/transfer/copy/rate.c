/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/rate.h"

#include "base/atomic.h"
#include "engine/transfer/setup/tuning.h"

/*
 * Sizes from one power of two to the next form a class, and are compared together. The first class
 * starts at the smallest staged size; the last one holds all sizes from 512 MiB on.
 */
#define CLASSES 12

/* Times are means in nanoseconds per MiB, in which recent copies count more. 0: not known. */
struct rate {
    _Atomic uint64_t driver_ns, staged_ns;
    _Atomic unsigned driver_copies; /* counted up to GF_TUNE_RATE_FIRST */
    _Atomic unsigned trials;        /* copies staged since the last back-off */
    /* Number of consecutive copies after which the mean was above the driver's. */
    _Atomic unsigned above;
    /* Number of short back-offs made because driver_ns was not known. */
    _Atomic unsigned probes;
    _Atomic unsigned backoff_left; /* copies that are still to be left to the driver */
    /* The length of the last back-off; 0 if staging has been faster since. */
    _Atomic unsigned backoff;
};

static struct rate rates[gf_direction_count][2][CLASSES];
static struct rate queued_rates[CLASSES];

/* NULL: smaller copies are not compared. */
static struct rate *class_of(struct rate *classes, uint64_t bytes)
{
    const uint64_t least = bytes / GF_TUNE_MIN_SHARED;
    return least ? &classes[gf_min(63 - __builtin_clzll(least), CLASSES - 1)] : NULL;
}

static struct rate *rate_of(struct gf_copy_kind kind, uint64_t bytes)
{
    return class_of(rates[kind.direction][kind.async], bytes);
}

static uint64_t ns_per_mib(uint64_t ns, uint64_t bytes)
{
    return (uint64_t)((double)ns * (1 << 20) / (double)bytes) + 8;
}

/*
 * The first copies are slow for other reasons (sleeping helpers, cold caches), so their minimum
 * counts. After them each copy moves the mean by an eighth, and counts as at most twice the mean,
 * so a single slow copy decides nothing.
 */
static void blend(_Atomic uint64_t *mean, unsigned seen, uint64_t now)
{
    const uint64_t before = gf_load_relaxed(mean);
    gf_store_relaxed(mean, !before ? now
                           : seen < GF_TUNE_RATE_FIRST
                               ? gf_min(before, now)
                               : before - before / 8 + gf_min(now, 2 * before) / 8);
}

static enum gf_rate_advice advise(struct rate *rate)
{
    unsigned left;

    if (!rate)
        return gf_rate_stage;
    left = gf_load_relaxed(&rate->backoff_left);
    while (left && !gf_cas_weak_relaxed(&rate->backoff_left, &left, left - 1))
        continue;
    return !left ? gf_rate_stage : left <= GF_TUNE_RATE_MEASURED ? gf_rate_measure : gf_rate_leave;
}

enum gf_rate_advice gf_rate_advise(struct gf_copy_kind kind, uint64_t bytes)
{
    return advise(rate_of(kind, bytes));
}

enum gf_rate_advice gf_rate_advise_queued(uint64_t bytes)
{
    return advise(class_of(queued_rates, bytes));
}

/*
 * Leaves the next copies to the driver. If several threads call this at once, one of them succeeds.
 */
static bool leave_next(struct rate *rate, unsigned copies)
{
    unsigned none = 0;
    if (!gf_cas_relaxed(&rate->backoff_left, &none, copies))
        return false;
    gf_store_relaxed(&rate->trials, 0);
    gf_store_relaxed(&rate->above, 0);
    gf_store_relaxed(&rate->staged_ns, 0);
    return true;
}

/* Begins a back-off of twice the last length. */
static void begin_backoff(struct rate *rate)
{
    const unsigned length =
        gf_min(gf_max(2 * gf_load_relaxed(&rate->backoff), GF_TUNE_RATE_BACKOFF),
               GF_TUNE_RATE_BACKOFF_MOST);
    if (leave_next(rate, length))
        gf_store_relaxed(&rate->backoff, length);
}

/*
 * Whether a back-off should begin. After few copies, only a large difference counts. After many
 * copies, a small difference counts too, if the mean was above the driver's after each of several
 * copies in a row: a single slow copy cannot cause that.
 */
static bool is_slower(struct rate *rate, uint64_t driver_ns, unsigned trials)
{
    const uint64_t staged_ns = gf_load_relaxed(&rate->staged_ns);
    const bool above = staged_ns > driver_ns + driver_ns / GF_TUNE_RATE_SETTLED_PART;
    const unsigned row = above ? gf_load_relaxed(&rate->above) + 1 : 0;

    gf_store_relaxed(&rate->above, row);
    return (trials >= GF_TUNE_RATE_TRIALS && staged_ns > driver_ns + driver_ns / 4) ||
           (trials >= GF_TUNE_RATE_SETTLED && row >= GF_TUNE_RATE_SETTLED_ROW);
}

/*
 * If staging is faster than any driver's copy, no comparison is needed. Otherwise, while the
 * driver's duration is not known, a few copies are left to the driver and timed. If none of them
 * could be timed, because the stream was never idle, the next attempts follow at growing intervals.
 */
static void judge_unknown(struct rate *rate, unsigned trials)
{
    const unsigned probes = gf_load_relaxed(&rate->probes);
    if (trials >= (unsigned)GF_TUNE_RATE_TRIALS << gf_min(probes, GF_TUNE_RATE_PROBES_MOST) &&
        gf_load_relaxed(&rate->staged_ns) > GF_TUNE_RATE_CERTAIN_NS &&
        leave_next(rate, GF_TUNE_RATE_FIRST))
        gf_store_relaxed(&rate->probes, probes + 1);
}

/*
 * Nanoseconds per MiB of a copy that shared the link with others. A thread that gets a lock again
 * and again has short durations, while the others' bytes count as under way. So these bytes lower
 * the time per MiB at most to GF_TUNE_RATE_CERTAIN_NS.
 */
static uint64_t shared_ns_per_mib(uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    const uint64_t least = gf_min(ns_per_mib(ns, bytes), GF_TUNE_RATE_CERTAIN_NS);
    return gf_max(ns_per_mib(ns, under_way), least);
}

static void add_staged(struct rate *rate, uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    /*
     * A copy that was already under way when a back-off began is not a trial of staging after the
     * back-off.
     */
    if (!rate || gf_load_relaxed(&rate->backoff_left))
        return;
    blend(&rate->staged_ns, gf_load_relaxed(&rate->trials),
          shared_ns_per_mib(bytes, ns, under_way));
    const unsigned trials = gf_add_relaxed(&rate->trials, 1) + 1;
    const uint64_t driver_ns = gf_load_relaxed(&rate->driver_ns);
    if (!driver_ns)
        judge_unknown(rate, trials);
    else if (is_slower(rate, driver_ns, trials))
        begin_backoff(rate);
    else if (trials >= GF_TUNE_RATE_SETTLED)
        gf_store_relaxed(&rate->backoff, 0);
}

void gf_rate_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    add_staged(rate_of(kind, bytes), bytes, ns, under_way);
}

void gf_rate_staged_queued(uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    add_staged(class_of(queued_rates, bytes), bytes, ns, under_way);
}

static void add_driver(struct rate *rate, uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    if (!rate)
        return;
    const unsigned seen = gf_load_relaxed(&rate->driver_copies);
    blend(&rate->driver_ns, seen, shared_ns_per_mib(bytes, ns, under_way));
    if (seen < GF_TUNE_RATE_FIRST)
        gf_store_relaxed(&rate->driver_copies, seen + 1);
}

void gf_rate_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    add_driver(rate_of(kind, bytes), bytes, ns, under_way);
}

void gf_rate_driver_queued(uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    add_driver(class_of(queued_rates, bytes), bytes, ns, under_way);
}
