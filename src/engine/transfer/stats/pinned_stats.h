/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the program's requests for pinned memory, for the report. All functions may be called
 * on any thread. They take no lock and make no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_STATS_PINNED_STATS_H
#define GF_ENGINE_TRANSFER_STATS_PINNED_STATS_H

#include "base/atomic.h"
#include "base/base.h"

/* Why an allocation was left to the driver. */
enum gf_pinned_reason {
    /* the flags or the size are such that the library never serves the allocation */
    gf_pinned_odd,
    gf_pinned_context, /* no context is current, or it cannot be identified */
    gf_pinned_memory,  /* too little headroom, or the kernel refused memory */
    gf_pinned_slow,    /* too few threads to be faster than the driver */
    gf_pinned_devices, /* several devices, with which registered memory was never tested */
    /* the library serves no allocations since a failure, or a registration failed */
    gf_pinned_failed,
    GF_PINNED_REASONS,
};

/* The name of a reason in the report's "reasons". */
const char *gf_pinned_reason_name(enum gf_pinned_reason reason);

struct gf_pinned_stats {
    uint64_t large_calls, large_bytes; /* allocations in memory that the library mapped */
    uint64_t large_ns;                 /* total duration of the calls counted in large_calls */
    /* Allocations that the driver served from mappings of 2 MiB, which keepalives may keep. */
    uint64_t small_calls, small_bytes;
    uint64_t driver_calls[GF_PINNED_REASONS], driver_bytes[GF_PINNED_REASONS];
    /* Registrations by the program for which the library prefaulted the memory. */
    uint64_t placed_calls, placed_bytes;
    uint64_t trims; /* how often a keepalive was freed */
};

/*
 * The counters of struct gf_pinned_stats, in the order of its fields. All counters have the same
 * width.
 */
#define GF_PINNED_COUNTERS (sizeof(struct gf_pinned_stats) / sizeof(uint64_t))
extern _Atomic uint64_t gf_pinned_counters[GF_PINNED_COUNTERS];

/* Adds n to a field of struct gf_pinned_stats. */
#define gf_pinned_stats_add(field, n)                                                              \
    gf_add_relaxed(                                                                                \
        &gf_pinned_counters[offsetof(struct gf_pinned_stats, field) / sizeof(uint64_t)], (n))

/*
 * Reads the counters so far. Each counter is read atomically, but the counters may belong to
 * slightly different times.
 */
void gf_pinned_stats_read(struct gf_pinned_stats *ret);

#endif
