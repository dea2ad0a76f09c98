/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls took, by kind, size and thread: counts in buckets of half a power of two, in a
 * table of fixed size. Any thread, inside malloc; no lock. A forked child begins with its parent's.
 */
#ifndef GF_OBSERVE_LATENCY_H
#define GF_OBSERVE_LATENCY_H

#include "base/base.h"

#include <sys/types.h>

enum gf_timed {
    gf_timed_malloc,
    gf_timed_calloc,
    gf_timed_realloc,
    gf_timed_memalign,
    gf_timed_free,
    gf_timed_driver_alloc,
    gf_timed_driver_free,
    gf_timed_driver_pin,
    gf_timed_driver_unpin,
    gf_timed_driver_wait, /* synchronisations */
    gf_timed_driver_copy, /* blocking ones */
    GF_TIMED_COUNT,
};

struct gf_latency {
    enum gf_timed kind;
    uint64_t size_to; /* sizes up to this, in bytes; 0: not known; UINT64_MAX: beyond the last class */
    pid_t tid;        /* 0: all threads that found no row of their own */
    uint64_t count, total_ns;
    uint64_t p50_ns, p99_ns, p999_ns, max_ns; /* a bucket's upper end, the largest exactly */
};

/* Before the first of the others; again is nothing. Calls pthread_atfork. */
void gf_latency_open(void);
void gf_latency_add(enum gf_timed kind, size_t size, uint64_t ns);
/* A call that was slow: it counts for the largest only, as it was not chosen by chance. */
void gf_latency_most(enum gf_timed kind, size_t size, uint64_t ns);

typedef void gf_latency_see(void *closure, const struct gf_latency *row);
/* Each thread's rows, and before them, with tid -1, those of all threads together. */
void gf_latency_each(gf_latency_see *see, void *closure);

const char *gf_timed_name(enum gf_timed kind);

#endif
