/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls and durations of calls, which the engine reports: causes, kinds of timed calls, counts. */
#ifndef GF_ABI_STALL_API_H
#define GF_ABI_STALL_API_H

#include "base/base.h"

#include <sys/types.h>

#define GF_CAUSES(X)                                                                               \
    X(unknown)                                                                                     \
    X(lock)                                                                                        \
    X(purge)                                                                                       \
    X(map)                                                                                         \
    X(faults)                                                                                      \
    X(copy)                                                                                        \
    X(compaction)                                                                                  \
    X(reclaim)                                                                                     \
    X(swap)                                                                                        \
    X(fork)                                                                                        \
    X(setup)                                                                                       \
    X(preempted)                                                                                   \
    X(paused)                                                                                      \
    X(gpu)                                                                                         \
    X(throttled)

enum gf_cause {
#define GF_CAUSE(name) gf_cause_##name,
    GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
        GF_CAUSE_COUNT,
};

/* Returns the name that log and report use. May be called on any thread. */
static inline const char *gf_cause_name(enum gf_cause cause)
{
    static const char *const names[] = {
#define GF_CAUSE(name) #name,
        GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
    };
    return cause < GF_CAUSE_COUNT ? names[cause] : "unknown";
}

struct gf_stall_count {
    uint64_t calls, us;
};

/* A GPU, identified as in the report. */
struct gf_stall_gpu {
    int device; /* -1: the GPU is unknown, or there are several */
    char pci[20];
};

/*
 * Kinds of calls whose durations are counted: the name in the code, and the name in log and report.
 */
#define GF_TIMED_KINDS(X)                                                                          \
    X(malloc, "malloc")                                                                            \
    X(calloc, "calloc")                                                                            \
    X(realloc, "realloc")                                                                          \
    X(memalign, "memalign")                                                                        \
    X(free, "free")                                                                                \
    X(driver_alloc, "cuda_alloc")                                                                  \
    X(driver_free, "cuda_free")                                                                    \
    X(driver_pin, "cuda_pin")                                                                      \
    X(driver_unpin, "cuda_unpin")                                                                  \
    X(driver_wait, "cuda_wait") /* synchronisations */                                             \
    X(driver_copy, "cuda_copy") /* blocking copies */

enum gf_timed {
#define GF_TIMED_KIND(kind, name) gf_timed_##kind,
    GF_TIMED_KINDS(GF_TIMED_KIND)
#undef GF_TIMED_KIND
        GF_TIMED_COUNT,
};

/* Returns the name that log and report use. May be called on any thread. */
static inline const char *gf_timed_name(enum gf_timed kind)
{
    static const char *const names[] = {
#define GF_TIMED_KIND(kind, name) name,
        GF_TIMED_KINDS(GF_TIMED_KIND)
#undef GF_TIMED_KIND
    };
    return kind < GF_TIMED_COUNT ? names[kind] : "other";
}

struct gf_latency {
    enum gf_timed kind;
    /*
     * The largest size in the call's size class, in bytes. 0: the size is unknown. UINT64_MAX: the
     * class has no largest size.
     */
    uint64_t size_to;
    /* -1: the sum of all threads; 0: the sum of the threads that have no row of their own. */
    pid_t tid;
    uint64_t count, total_ns;
    /* A percentile is the upper end of the histogram bucket that contains it. max_ns is exact. */
    uint64_t p50_ns, p99_ns, p999_ns, max_ns;
};

typedef void gf_latency_fn(void *closure, const struct gf_latency *row);

#endif
