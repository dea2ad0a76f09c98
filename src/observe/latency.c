/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/latency.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS 512
#define BUCKETS 56
#define FIRST_SHIFT 5 /* the first bucket ends at 32 ns */
#define CLASSES 9

static const uint64_t classes[CLASSES] = {0,         64,        512,      4096,      32 << 10,
                                          256 << 10, 2 << 20, 16 << 20, UINT64_MAX};

struct row {
    uint64_t key; /* 0: free */
    uint64_t count, total_ns, max_ns;
    uint32_t bucket[BUCKETS];
};

static struct row rows[ROWS];
/* Of threads that found no place above: a program may have had any number of them. */
static struct row others[GF_TIMED_COUNT][CLASSES];

static __thread pid_t own_tid; /* 0: not asked yet */

static unsigned class_of(size_t size)
{
    unsigned class = 0;
    while (size > classes[class])
        class++;
    return class;
}

static uint64_t key_of(enum gf_timed kind, unsigned class, pid_t tid)
{
    return UINT64_C(1) << 63 | (uint64_t)kind << 40 | (uint64_t)class << 32 | (uint32_t)tid;
}

/* Half powers of two: 32, 48, 64, 96 ns and so on, to 2^33 ns. */
static unsigned bucket_of(uint64_t ns)
{
    if (ns < (UINT64_C(1) << FIRST_SHIFT))
        return 0;
    const unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    const unsigned bucket = 1 + 2 * (power - FIRST_SHIFT) + (unsigned)(ns >> (power - 1) & 1);
    return gf_min(bucket, BUCKETS - 1u);
}

static uint64_t end_of(unsigned bucket)
{
    return (bucket % 2 ? UINT64_C(3) << (FIRST_SHIFT - 1) : UINT64_C(2) << (FIRST_SHIFT - 1))
           << bucket / 2;
}

static unsigned place_of(uint64_t key)
{
    return (unsigned)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 55) % ROWS;
}

static struct row *find(uint64_t key)
{
    unsigned at = place_of(key);

    for (unsigned tries = 0; tries < 16; tries++, at = (at + 1) % ROWS) {
        uint64_t there = __atomic_load_n(&rows[at].key, __ATOMIC_RELAXED);
        if (there == key)
            return &rows[at];
        if (!there && (__atomic_compare_exchange_n(&rows[at].key, &there, key, false,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
                       there == key))
            return &rows[at];
    }
    return NULL;
}

static void raise_to(uint64_t *max, uint64_t ns)
{
    uint64_t there = __atomic_load_n(max, __ATOMIC_RELAXED);
    while (ns > there && !__atomic_compare_exchange_n(max, &there, ns, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED))
        ;
}

/* A system call at each small copy would be a hundredth of it. */
static pid_t tid(void)
{
    if (gf_unlikely(!own_tid))
        own_tid = (pid_t)syscall(SYS_gettid);
    return own_tid;
}

static void in_child(void)
{
    own_tid = 0;
}

void gf_latency_open(void)
{
    static bool opened;

    if (!__atomic_test_and_set(&opened, __ATOMIC_RELAXED))
        pthread_atfork(NULL, NULL, in_child);
}

/* NULL: there is no place any more. */
static struct row *own_row(enum gf_timed kind, unsigned class)
{
    return find(key_of(kind, class, tid()));
}

void gf_latency_most(enum gf_timed kind, size_t size, uint64_t ns)
{
    const unsigned class = class_of(size);
    struct row *row = own_row(kind, class);
    raise_to(row ? &row->max_ns : &others[kind][class].max_ns, ns);
}

static void add_shared(struct row *row, uint64_t ns)
{
    __atomic_fetch_add(&row->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->total_ns, ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->bucket[bucket_of(ns)], 1, __ATOMIC_RELAXED);
    raise_to(&row->max_ns, ns);
}

/* Nobody else writes there but a signal handler of the same thread, to which a count may be lost. */
#define ADD_OWN(counter, n)                                                                        \
    __atomic_store_n(&(counter), __atomic_load_n(&(counter), __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED)

void gf_latency_add(enum gf_timed kind, size_t size, uint64_t ns)
{
    const unsigned class = class_of(size);
    struct row *row = own_row(kind, class);

    if (gf_unlikely(!row)) {
        add_shared(&others[kind][class], ns);
        return;
    }
    ADD_OWN(row->count, 1);
    ADD_OWN(row->total_ns, ns);
    ADD_OWN(row->bucket[bucket_of(ns)], 1);
    if (ns > __atomic_load_n(&row->max_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&row->max_ns, ns, __ATOMIC_RELAXED);
}

static void add_row(struct row *sum, const struct row *row)
{
    sum->count += __atomic_load_n(&row->count, __ATOMIC_RELAXED);
    sum->total_ns += __atomic_load_n(&row->total_ns, __ATOMIC_RELAXED);
    sum->max_ns = gf_max(sum->max_ns, __atomic_load_n(&row->max_ns, __ATOMIC_RELAXED));
    for (unsigned i = 0; i < BUCKETS; i++)
        sum->bucket[i] += __atomic_load_n(&row->bucket[i], __ATOMIC_RELAXED);
}

/* The end of the bucket in which the call stands below which so many of a thousand are. */
static uint64_t quantile(const struct row *row, unsigned thousandths)
{
    uint64_t seen = 0, all = 0;

    for (unsigned i = 0; i < BUCKETS; i++)
        all += row->bucket[i];
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += row->bucket[i];
        if (seen && seen * 1000 >= all * thousandths)
            return gf_min(end_of(i), row->max_ns);
    }
    return row->max_ns;
}

static void show(const struct row *row, enum gf_timed kind, unsigned class, pid_t tid,
                 gf_latency_see *see, void *closure)
{
    if (!row->count && !row->max_ns)
        return;
    const struct gf_latency shown = {
        .kind = kind, .size_to = classes[class], .tid = tid,
        .count = row->count, .total_ns = row->total_ns, .max_ns = row->max_ns,
        .p50_ns = quantile(row, 500), .p99_ns = quantile(row, 990), .p999_ns = quantile(row, 999),
    };
    see(closure, &shown);
}

static void show_all(enum gf_timed kind, unsigned class, gf_latency_see *see, void *closure)
{
    const uint64_t wanted = key_of(kind, class, 0) >> 32;
    struct row sum = {0};

    for (unsigned i = 0; i < ROWS; i++)
        if (__atomic_load_n(&rows[i].key, __ATOMIC_RELAXED) >> 32 == wanted)
            add_row(&sum, &rows[i]);
    add_row(&sum, &others[kind][class]);
    show(&sum, kind, class, -1, see, closure);
}

void gf_latency_each(gf_latency_see *see, void *closure)
{
    for (unsigned kind = 0; kind < GF_TIMED_COUNT; kind++)
        for (unsigned class = 0; class < CLASSES; class++)
            show_all(kind, class, see, closure);
    for (unsigned i = 0; i < ROWS; i++) {
        const uint64_t key = __atomic_load_n(&rows[i].key, __ATOMIC_RELAXED);
        struct row row = {0};
        if (!key)
            continue;
        add_row(&row, &rows[i]);
        show(&row, (enum gf_timed)(key >> 40 & 0xff), key >> 32 & 0xff, (pid_t)(uint32_t)key, see,
             closure);
    }
    for (unsigned kind = 0; kind < GF_TIMED_COUNT; kind++)
        for (unsigned class = 0; class < CLASSES; class++) {
            struct row row = {0};
            add_row(&row, &others[kind][class]);
            show(&row, kind, class, 0, see, closure);
        }
}

const char *gf_timed_name(enum gf_timed kind)
{
    static const char *const names[] = {"malloc", "calloc", "realloc", "memalign", "free",
                                        "cuda_alloc", "cuda_free", "cuda_pin", "cuda_unpin",
                                        "cuda_wait", "cuda_copy"};
    return kind < GF_TIMED_COUNT ? names[kind] : "other";
}
