/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/latency.h"

#include "base/atomic.h"
#include "os/own_table.h"

#include <pthread.h>

#define ROWS 512
#define BUCKETS 56
#define FIRST_SHIFT 5 /* the first bucket holds durations below 32 ns */
#define CLASSES 9

static const uint64_t classes[CLASSES] = {0,         64,      512,      4096,      32 << 10,
                                          256 << 10, 2 << 20, 16 << 20, UINT64_MAX};

struct row {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint64_t count, total_ns, max_ns;
    _Atomic uint32_t bucket[BUCKETS];
};

struct sum {
    uint64_t count, total_ns, max_ns;
    uint64_t bucket[BUCKETS];
};

static struct row rows[ROWS];
/*
 * All threads for which `rows` has no free row share these rows. A program may have more threads
 * than `rows` has space for.
 */
static struct row others[GF_TIMED_COUNT][CLASSES];

static __thread pid_t own_tid; /* 0: not read yet */

static unsigned size_class(size_t size)
{
    unsigned class = 0;
    while (size > classes[class])
        class ++;
    return class;
}

static uint64_t key_of(enum gf_timed kind, unsigned class, pid_t tid)
{
    return UINT64_C(1) << 63 | (uint64_t)kind << 40 | (uint64_t) class << 32 | (uint32_t)tid;
}

/* Buckets end at half powers of two: 32, 48, 64, 96 ns and so on, to 2^33 ns. */
static unsigned latency_bucket(uint64_t ns)
{
    if (ns < (UINT64_C(1) << FIRST_SHIFT))
        return 0;
    const unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    const unsigned bucket = 1 + 2 * (power - FIRST_SHIFT) + (unsigned)(ns >> (power - 1) & 1);
    return gf_min(bucket, BUCKETS - 1u);
}

static uint64_t bucket_end(unsigned bucket)
{
    return (bucket % 2 ? UINT64_C(3) << (FIRST_SHIFT - 1) : UINT64_C(2) << (FIRST_SHIFT - 1))
           << bucket / 2;
}

static struct row *find_row(uint64_t key)
{
    unsigned at = (unsigned)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 55) % ROWS;

    for (unsigned tries = 0; tries < 16; tries++, at = (at + 1) % ROWS) {
        uint64_t there = gf_load_relaxed(&rows[at].key);
        if (there == key)
            return &rows[at];
        if (!there && (gf_cas_relaxed(&rows[at].key, &there, key) || there == key))
            return &rows[at];
    }
    return NULL;
}

static void raise_to(_Atomic uint64_t *max, uint64_t ns)
{
    uint64_t there = gf_load_relaxed(max);
    while (ns > there && !gf_cas_weak_relaxed(max, &there, ns))
        ;
}

/* The id is cached, because gettid takes a hundredth of the time of a small copy. */
static pid_t read_own_tid(void)
{
    if (gf_likely(own_tid))
        return own_tid;
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    if (gf_descriptor_id() == tid)
        own_tid = tid;
    return tid;
}

static void latency_in_child(void)
{
    own_tid = 0;
}

void gf_latency_open(void)
{
    static _Atomic bool opened;

    if (!gf_exchange_relaxed(&opened, true))
        pthread_atfork(NULL, NULL, latency_in_child);
}

/* Returns the calling thread's row; NULL if no row is free for it. */
static struct row *own_row(enum gf_timed kind, unsigned class)
{
    return find_row(key_of(kind, class, read_own_tid()));
}

void gf_latency_add_max(enum gf_timed kind, size_t size, uint64_t ns)
{
    const unsigned class = size_class(size);
    struct row *row = own_row(kind, class);
    raise_to(row ? &row->max_ns : &others[kind][class].max_ns, ns);
}

static void add_shared(struct row *row, uint64_t ns)
{
    gf_add_relaxed(&row->count, 1);
    gf_add_relaxed(&row->total_ns, ns);
    gf_add_relaxed(&row->bucket[latency_bucket(ns)], 1);
    raise_to(&row->max_ns, ns);
}

/*
 * Adds to a counter of the calling thread's row. Only this thread and its signal handlers write to
 * the row. An addition by a signal handler may be lost.
 */
#define ADD_OWN(counter, n) gf_store_relaxed(&(counter), gf_load_relaxed(&(counter)) + (n))

void gf_latency_add(enum gf_timed kind, size_t size, uint64_t ns)
{
    const unsigned class = size_class(size);
    struct row *row = own_row(kind, class);

    if (gf_unlikely(!row)) {
        add_shared(&others[kind][class], ns);
        return;
    }
    ADD_OWN(row->count, 1);
    ADD_OWN(row->total_ns, ns);
    ADD_OWN(row->bucket[latency_bucket(ns)], 1);
    if (ns > gf_load_relaxed(&row->max_ns))
        gf_store_relaxed(&row->max_ns, ns);
}

static void sum_row(struct sum *sum, struct row *row)
{
    const uint64_t max_ns = gf_load_relaxed(&row->max_ns);

    sum->count += gf_load_relaxed(&row->count);
    sum->total_ns += gf_load_relaxed(&row->total_ns);
    sum->max_ns = gf_max(sum->max_ns, max_ns);
    for (unsigned i = 0; i < BUCKETS; i++)
        sum->bucket[i] += gf_load_relaxed(&row->bucket[i]);
}

/* Returns the upper end of the bucket that contains the quantile. */
static uint64_t latency_quantile(const struct sum *row, unsigned thousandths)
{
    uint64_t seen = 0, all = 0;

    for (unsigned i = 0; i < BUCKETS; i++)
        all += row->bucket[i];
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += row->bucket[i];
        if (seen && seen * 1000 >= all * thousandths)
            return gf_min(bucket_end(i), row->max_ns);
    }
    return row->max_ns;
}

static void show_row(const struct sum *row, enum gf_timed kind, unsigned class, pid_t tid,
                     gf_latency_fn *fn, void *closure)
{
    if (!row->count && !row->max_ns)
        return;
    const struct gf_latency shown = {
        .kind = kind,
        .size_to = classes[class],
        .tid = tid,
        .count = row->count,
        .total_ns = row->total_ns,
        .max_ns = row->max_ns,
        .p50_ns = latency_quantile(row, 500),
        .p99_ns = latency_quantile(row, 990),
        .p999_ns = latency_quantile(row, 999),
    };
    fn(closure, &shown);
}

static void show_all_threads(enum gf_timed kind, unsigned class, gf_latency_fn *fn, void *closure)
{
    const uint64_t wanted = key_of(kind, class, 0) >> 32;
    struct sum sum = {0};

    for (unsigned i = 0; i < ROWS; i++)
        if (gf_load_relaxed(&rows[i].key) >> 32 == wanted)
            sum_row(&sum, &rows[i]);
    sum_row(&sum, &others[kind][class]);
    show_row(&sum, kind, class, -1, fn, closure);
}

void gf_latency_each(gf_latency_fn *fn, void *closure)
{
    for (unsigned kind = 0; kind < GF_TIMED_COUNT; kind++)
        for (unsigned class = 0; class < CLASSES; class ++)
            show_all_threads(kind, class, fn, closure);
    for (unsigned i = 0; i < ROWS; i++) {
        const uint64_t key = gf_load_relaxed(&rows[i].key);
        struct sum row = {0};
        if (!key)
            continue;
        sum_row(&row, &rows[i]);
        show_row(&row, (enum gf_timed)(key >> 40 & 0xff), key >> 32 & 0xff, (pid_t)(uint32_t)key,
                 fn, closure);
    }
    for (unsigned kind = 0; kind < GF_TIMED_COUNT; kind++)
        for (unsigned class = 0; class < CLASSES; class ++) {
            struct sum row = {0};
            sum_row(&row, &others[kind][class]);
            show_row(&row, kind, class, 0, fn, closure);
        }
}
