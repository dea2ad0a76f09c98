/* SPDX-License-Identifier: Apache-2.0 */
/* Counters for the report. */
#pragma once

#include "base/atomic.h"
#include "base/base.h"

/* Bytes of pinned memory by the NUMA node of their pages, for the report. */

/* the index for unknown nodes, and for nodes with higher numbers */
#define GF_NODE_BYTES_UNKNOWN 64
#define GF_NODE_BYTES_COUNT (GF_NODE_BYTES_UNKNOWN + 1)

/* `node` is -1 if it is not known. */
static inline void gf_node_bytes_add(uint64_t bytes_on[GF_NODE_BYTES_COUNT], int node,
                                     uint64_t bytes)
{
    bytes_on[node >= 0 && node < GF_NODE_BYTES_UNKNOWN ? node : GF_NODE_BYTES_UNKNOWN] += bytes;
}

/*
 * Counters for the report. They count the copies that were large enough to be offered to the
 * engine, read-ahead, shared calls, holds, and requests for pinned memory. Each thread uses one of a
 * few shards of the counters, so that threads that copy at the same time seldom share a cache line.
 *
 * All functions may be called on any thread. They take no lock and make no CUDA call.
 */

/*
 * The reasons why a copy bypasses staging and is left to the driver. checks[] in copy/admission.c has the
 * order in which they are checked. After these checks, copy/staged_copy.c may still return the
 * reasons capture, failed, full, shared, shares_pages, slower or unreadable.
 */
enum gf_bypass {
#define GF_REASON(name, words, remedy) gf_bypass_##name,
#include "abi/reasons.def"
    gf_bypass_count,
    gf_bypass_none = gf_bypass_count, /* the copy is staged */
};

enum gf_direction { gf_direction_h2d, gf_direction_d2h, gf_direction_count };

/*
 * Identifies the copies that are counted together, and that are compared with the driver together.
 */
struct gf_copy_kind {
    enum gf_direction direction;
    bool async;
};

struct gf_copy_counts {
    uint64_t calls, bytes;
    /*
     * The part of `bytes` whose calls were timed, and the total duration of these calls in the
     * caller's thread, including waits.
     */
    uint64_t timed_bytes, timed_ns;
};

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

/* Read-ahead for copies from mapped files. */
struct gf_readahead_count {
    uint64_t files;   /* number of files in which bytes were read ahead */
    uint64_t advised; /* bytes passed to madvise: in copies, and after the end of copies */
    uint64_t ahead;   /* the part of `advised` after the end of the copy */
    uint64_t used;    /* the part of `ahead` that was copied later */
};

/*
 * Calls by certain libraries that helpers share: copies into pinned memory, reads of files, and copies
 * of a DataLoader's batch.
 */
enum gf_import_kind { gf_import_memcpy, gf_import_read, gf_import_pin, GF_IMPORT_KINDS };

struct gf_import_count {
    uint64_t libraries;    /* number of pointers to such a function that were replaced */
    uint64_t calls, bytes; /* `bytes` is 0 for gf_import_pin */
};

/* How many calls met a hold, for how long they waited in all, and how many holds they ended. */
struct gf_hold_count {
    uint64_t met, ns, ended;
};

/*
 * Pageable copies are the staged copies, and the copies that bypassed staging for any reason except
 * `pinned` and `ends`. For `early` copies, the kind of memory is not known, and their durations are
 * not measured. Bytes that the caller copied alone, because helpers could not access them, count in
 * `staged` and in `rest`.
 */
struct gf_copy_stats {
    /* index [0]: synchronous calls, [1]: asynchronous calls */
    struct gf_copy_counts staged[gf_direction_count][2];
    /* Parts of staged copies that the caller made alone. */
    struct gf_copy_counts rest[gf_direction_count];
    struct gf_copy_counts bypassed[gf_direction_count][2][gf_bypass_count];
    /* calls that waited for their stream because the ring was too small */
    uint64_t stream_waits;
    uint64_t ring_grown, ring_shrunk; /* how often rings grew and shrank */
    struct gf_readahead_count readahead;
    struct gf_import_count imports[GF_IMPORT_KINDS];
    struct gf_hold_count holds;
    struct gf_pinned_stats pinned;
};

/* The counters of the calling thread, in the order of the fields of struct gf_copy_stats. */
_Atomic uint64_t *gf_copy_counters(void);

/* Adds n to a field of struct gf_copy_stats. */
#define gf_copy_stats_add(field, n)                                                                \
    gf_add_relaxed(&gf_copy_counters()[offsetof(struct gf_copy_stats, field) / sizeof(uint64_t)],  \
                   (n))

/* The current state of staging and of pinned memory, for all devices. */
struct gf_transfer_state {
    /* The registered bytes of all rings, and the sum of the rings' limits. */
    uint64_t ring_bytes, ring_limit;
    /* the most bytes of all rings that were registered at one time */
    uint64_t ring_most;
    /* registered bytes of all rings, by the node of the pages */
    uint64_t ring_held[GF_NODE_BYTES_COUNT];
    unsigned rings, helpers;
    unsigned threads;                 /* gf_admission_threads, as the next field */
    size_t least[gf_direction_count]; /* in bytes */
    const char *off;      /* the reason why no copy is staged; NULL if copies are staged */
    uint64_t pinned_kept; /* pinned memory that only keepalives hold, in bytes */
    /* bytes of shared memory that the program has unmapped, but that are not freed yet */
    uint64_t unmap_pending;
    /* Bytes of pinned buffers that the program holds, by the node of the pages. */
    uint64_t pinned_held[GF_NODE_BYTES_COUNT];
};

/*
 * Count a copy that was staged, the part of it that the caller copied alone, and a copy that bypassed
 * staging. `ns` is the duration of the call in the caller's thread.
 */
void gf_copy_stats_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);
void gf_copy_stats_rest(enum gf_direction direction, uint64_t bytes);
void gf_copy_stats_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes);
/* Adds the duration of the driver's call for a copy that was already counted as bypassed. */
void gf_copy_stats_driver_time(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes,
                               uint64_t ns);
void gf_copy_stats_ring_grown(uint64_t bytes);
/* `dropped`: the ring ended with its context, so it does not count as a ring that shrank. */
void gf_copy_stats_ring_shrunk(uint64_t bytes, bool dropped);

/* The most bytes that all rings together had at one time. */
uint64_t gf_copy_stats_ring_most(void);

/*
 * Reads the sums so far. Each counter is read atomically, but the counters may belong to slightly
 * different times.
 */
void gf_copy_stats_read(struct gf_copy_stats *ret);

/* The token of a reason, such as "capture", and its words. */
const char *gf_bypass_name(enum gf_bypass reason);
const char *gf_bypass_text(enum gf_bypass reason);

/*
 * The copies of an interval that took longest, for the event log. Each thread records into one of a
 * few shards. A copy that is not among the longest of its shard costs two loads. If no log is
 * written, each copy costs one load.
 *
 * All functions may be called on any thread. They take no lock and make no CUDA call.
 */

/* The groups of copies that the report and the log distinguish. */
enum gf_copy_group {
    gf_copy_group_staged,
    gf_copy_group_pinned,
    gf_copy_group_driver,
    gf_copy_group_other,
    gf_copy_group_count,
};

/* Returns the group of copies with this reason. gf_bypass_none: the group of staged copies. */
enum gf_copy_group gf_copy_group(enum gf_bypass reason);
const char *gf_copy_group_name(enum gf_copy_group group);

struct gf_long_copy {
    uint64_t end_ns, ns, bytes; /* end_ns: CLOCK_MONOTONIC, within a microsecond */
    pid_t tid;                  /* the thread that called the copy */
    enum gf_direction direction;
    enum gf_copy_group group;
};

/* Begins to record copies. Before the first call of this function, no copy is recorded. */
void gf_longest_copies_start(void);

/*
 * Records a copy that has just ended and took `ns` nanoseconds, if it is among the longest copies.
 */
void gf_longest_copies_add(enum gf_direction direction, enum gf_bypass reason, uint64_t bytes,
                           uint64_t ns);

/*
 * Returns in `ret` the longest copies since the last call, sorted by duration with the longest
 * first. Returns their number, at most `max`. All other recorded copies are discarded. Only one
 * thread at a time calls this function.
 */
size_t gf_longest_copies_take(struct gf_long_copy *ret, size_t max);
