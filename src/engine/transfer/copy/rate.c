/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/rate.h"

#include "base/atomic.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>

/*
 * All sizes from one power of two to the next form a class, whose copies share one struct rate. The
 * first class starts at the smallest staged size; the last one holds all sizes from 512 MiB on.
 */
#define CLASSES 12

/*
 * The measurements of one class. driver_ns and staged_ns are means in nanoseconds per MiB, in which
 * recent copies count more; 0: not known.
 */
struct rate {
    _Atomic uint64_t driver_ns, staged_ns;
    /* timed copies of the driver, counted up to GF_TUNE_RATE_FIRST */
    _Atomic unsigned driver_copies;
    _Atomic unsigned trials; /* copies staged since the last back-off */
    /*
     * The number of latest staged copies in a row after each of which staged_ns was clearly above
     * driver_ns.
     */
    _Atomic unsigned above;
    /* The number of short back-offs that were made because driver_ns was not known. */
    _Atomic unsigned probes;
    _Atomic unsigned backoff_left; /* copies that the current back-off still leaves to the driver */
    /*
     * The number of copies of the last back-off; 0 if no further one was needed during
     * GF_TUNE_RATE_SETTLED staged copies.
     */
    _Atomic unsigned backoff;
};

static struct rate rates[gf_direction_count][2][CLASSES];
static struct rate queued_rates[CLASSES];

/* Returns the class of a copy. NULL: copies below GF_TUNE_MIN_SHARED bytes are not compared. */
static struct rate *rate_of(struct gf_copy_kind kind, bool queued, uint64_t bytes)
{
    struct rate *const classes = queued ? queued_rates : rates[kind.direction][kind.async];
    const uint64_t least = bytes / GF_TUNE_MIN_SHARED;
    return least ? &classes[gf_min(63 - __builtin_clzll(least), CLASSES - 1)] : NULL;
}

static uint64_t ns_per_mib(uint64_t ns, uint64_t bytes)
{
    return (uint64_t)((double)ns * (1 << 20) / (double)bytes) + 8;
}

/*
 * Adds a copy to a mean. The first GF_TUNE_RATE_FIRST copies are slow for reasons that soon
 * disappear (sleeping helpers, cold caches), so the mean starts as their minimum. Each later copy
 * has a weight of one eighth, and counts as at most twice the mean, so that a single slow copy
 * changes little.
 */
static void blend(_Atomic uint64_t *mean, unsigned seen, uint64_t now)
{
    const uint64_t before = gf_load_relaxed(mean);
    gf_store_relaxed(mean, !before ? now
                           : seen < GF_TUNE_RATE_FIRST
                               ? gf_min(before, now)
                               : before - before / 8 + gf_min(now, 2 * before) / 8);
}

enum gf_rate_advice gf_rate_advise(struct gf_copy_kind kind, bool queued, uint64_t bytes)
{
    struct rate *const rate = rate_of(kind, queued, bytes);
    unsigned left;

    if (!rate)
        return gf_rate_stage;
    left = gf_load_relaxed(&rate->backoff_left);
    while (left && !gf_cas_weak_relaxed(&rate->backoff_left, &left, left - 1))
        continue;
    return !left ? gf_rate_stage : left <= GF_TUNE_RATE_MEASURED ? gf_rate_measure : gf_rate_leave;
}

/*
 * Begins a back-off: leaves the next `copies` copies to the driver. Returns false if another thread
 * has just begun one.
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
 * Whether a back-off should begin. After GF_TUNE_RATE_TRIALS staged copies, it begins if their mean
 * exceeds the driver's by a quarter. After GF_TUNE_RATE_SETTLED staged copies, a smaller excess
 * suffices, if the mean had it after each of the last GF_TUNE_RATE_SETTLED_ROW copies. A single
 * slow copy cannot cause such a series.
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
 * Called while the driver's duration is not known. If staging takes at most GF_TUNE_RATE_CERTAIN_NS
 * per MiB, no driver is faster, so no comparison is needed. Otherwise GF_TUNE_RATE_FIRST copies are
 * left to the driver and timed. If none of them could be timed, because the stream was never idle,
 * the attempt is repeated at growing intervals.
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
 * Returns the nanoseconds per MiB of a copy that shared the link with other copies. A thread that
 * gets the driver's lock again and again has short durations, although the bytes of the threads
 * that wait for the lock count as under way. So the bytes of other copies lower the result at most
 * to GF_TUNE_RATE_CERTAIN_NS.
 */
static uint64_t shared_ns_per_mib(uint64_t bytes, uint64_t ns, uint64_t under_way)
{
    const uint64_t least = gf_min(ns_per_mib(ns, bytes), GF_TUNE_RATE_CERTAIN_NS);
    return gf_max(ns_per_mib(ns, under_way), least);
}

void gf_rate_staged(struct gf_copy_kind kind, bool queued, uint64_t bytes, uint64_t ns,
                    uint64_t under_way)
{
    struct rate *const rate = rate_of(kind, queued, bytes);

    /*
     * A staged copy that ends during a back-off was already under way when the back-off began. So
     * it does not count as a trial after the back-off.
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

void gf_rate_driver(struct gf_copy_kind kind, bool queued, uint64_t bytes, uint64_t ns,
                    uint64_t under_way)
{
    struct rate *const rate = rate_of(kind, queued, bytes);

    if (!rate)
        return;
    const unsigned seen = gf_load_relaxed(&rate->driver_copies);
    blend(&rate->driver_ns, seen, shared_ns_per_mib(bytes, ns, under_way));
    if (seen < GF_TUNE_RATE_FIRST)
        gf_store_relaxed(&rate->driver_copies, seen + 1);
}

static _Atomic uint64_t under_way[gf_direction_count][gf_maker_count];

/* Bytes of the calling thread's current copies; 0: no copy. */
static __thread uint64_t own[gf_direction_count][gf_maker_count];

/*
 * If a thread is cancelled or calls pthread_exit inside the driver's call, that call never returns.
 * The destructor of this key then ends the thread's copies.
 */
static struct {
    pthread_once_t once;
    pthread_key_t key;
    bool exists;
} at_end = {.once = PTHREAD_ONCE_INIT};

static __thread bool ends_copies;

static void end_copies(void *closure)
{
    (void)closure;
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        for (unsigned maker = 0; maker < gf_maker_count; maker++)
            gf_under_way_leave((enum gf_direction)direction, (enum gf_maker)maker);
    ends_copies = false;
}

static void create_key(void)
{
    at_end.exists = pthread_key_create(&at_end.key, end_copies) == 0;
}

/*
 * If the key or the memory for its value cannot be created, a copy stays counted when its thread
 * ends inside the driver's call.
 */
static void prepare_end(void)
{
    pthread_once(&at_end.once, create_key);
    if (at_end.exists)
        pthread_setspecific(at_end.key, own);
    ends_copies = true;
}

uint64_t gf_under_way_enter(enum gf_direction direction, enum gf_maker maker, uint64_t bytes)
{
    if (!ends_copies)
        prepare_end();
    const uint64_t more = bytes - own[direction][maker]; /* calculated modulo 2^64, like the sum */

    own[direction][maker] = bytes;
    return gf_add_relaxed(&under_way[direction][maker], more) + more;
}

uint64_t gf_under_way_leave(enum gf_direction direction, enum gf_maker maker)
{
    const uint64_t bytes = own[direction][maker];

    own[direction][maker] = 0;
    return bytes ? gf_sub_relaxed(&under_way[direction][maker], bytes)
                 : gf_load_relaxed(&under_way[direction][maker]);
}

bool gf_under_way_by_driver(void)
{
    return gf_load_relaxed(&under_way[gf_direction_h2d][gf_maker_driver]) ||
           gf_load_relaxed(&under_way[gf_direction_d2h][gf_maker_driver]);
}
