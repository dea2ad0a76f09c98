/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the copies that were large enough to be offered to the engine, for the report. Each
 * thread counts in one of a few shards, so that threads that copy at once do not share a cache
 * line.
 *
 * All functions may be called on any thread. They take no lock and make no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_STATS_COPY_STATS_H
#define GF_ENGINE_TRANSFER_STATS_COPY_STATS_H

#include "engine/transfer/stats/node_bytes.h"

/*
 * Why a copy bypasses staging and is left to the driver: X(token, words). The report uses the
 * tokens, the summary uses the words. The order here has no meaning: checks[] in copy/admission.c
 * has the order of decision. After these checks, copy/h2d.c and copy/d2h.c may still find capture,
 * failed, full, shares_pages, slower or unreadable.
 */
#define GF_BYPASS_REASONS(X)                                                                       \
    X(early, "among the process's first small copies")                                             \
    X(pinned, "the host memory is pinned, registered or managed")                                  \
    X(ends, "not between pageable memory and a device")                                            \
    X(batch, "part of a batch of copies from the GPU")                                             \
    X(small, "below the size from which staging pays")                                             \
    X(capture, "the stream is being captured")                                                     \
    X(stream, "the stream belongs to another context or to a green one")                           \
    X(context, "the context is green, unknown, ending, or over the limit of 64")                   \
    X(shares_pages, "the GPU accesses pageable memory directly")                                   \
    X(device_memory, "managed, of another device, or with synchronous memory operations")          \
    X(range, "part of the range is not device memory")                                             \
    X(few_threads, "too few copy threads, because of CPU mask, quota or option")                   \
    X(caller, "the caller is a real-time thread, or the program handles page faults itself")       \
    X(off, "staging is off, by option or after a failure")                                         \
    X(crowded, "too many copies were being staged at once")                                        \
    X(slower, "the driver was faster in recent copies")                                            \
    X(warming, "the staging ring was not ready yet")                                               \
    X(full, "other copies held the staging ring")                                                  \
    X(unreadable, "the program's memory could not be populated")                                   \
    X(failed, "a call of the library failed before any DMA was issued")

enum gf_bypass {
#define GF_BYPASS_ENUMERATOR(token, words) gf_bypass_##token,
    GF_BYPASS_REASONS(GF_BYPASS_ENUMERATOR)
#undef GF_BYPASS_ENUMERATOR
        gf_bypass_count,
    gf_bypass_none = gf_bypass_count, /* the copy is staged */
};

enum gf_direction { gf_direction_h2d, gf_direction_d2h, gf_direction_count };

/* Copies that are counted and compared with the driver together. */
struct gf_copy_kind {
    enum gf_direction direction;
    bool async;
};

struct gf_copy_counts {
    uint64_t calls, bytes;
    /*
     * The part of `bytes` whose calls were timed, and the duration of these calls in the caller's
     * thread, including waits.
     */
    uint64_t timed_bytes, timed_ns;
};

/*
 * Pageable copies are the staged copies, and those that bypassed staging for any reason but
 * `pinned` and `ends`. The memory of `early` copies is not known, and they are not timed. If the
 * driver copied the rest of a staged call, those bytes count both as staged and as rest.
 */
struct gf_copy_stats {
    /* [0] synchronous calls, [1] asynchronous ones */
    struct gf_copy_counts staged[gf_direction_count][2];
    /* Parts of staged copies that the driver made. */
    struct gf_copy_counts rest[gf_direction_count];
    struct gf_copy_counts bypassed[gf_direction_count][2][gf_bypass_count];
    uint64_t stream_waits;            /* calls that waited because the ring was too small */
    uint64_t ring_grown, ring_shrunk; /* times */
};

/* Reading ahead of copies from mapped files. */
struct gf_readahead_count {
    uint64_t files;   /* number of files in which bytes were read ahead */
    uint64_t advised; /* bytes passed to madvise, of copies and behind them */
    uint64_t ahead;   /* the part of `advised` that lay behind the copy */
    uint64_t used;    /* the part of `ahead` that was copied later */
};

/* Copies that libraries make into pinned memory by memcpy, and that helpers share. */
struct gf_memcpy_count {
    uint64_t libraries; /* libraries whose pointer to memcpy was replaced */
    uint64_t calls, bytes;
};

/* The current state of staging and of pinned memory, for all devices. */
struct gf_transfer_state {
    /* Registered bytes of all rings, and the allowed bytes. */
    uint64_t ring_bytes, ring_limit;
    uint64_t ring_most;                      /* the most that was registered at one time */
    uint64_t ring_held[GF_NODE_BYTES_COUNT]; /* registered bytes, by the node of the pages */
    unsigned rings, helpers;
    const char *off;        /* why no copy is staged; NULL if copies are */
    uint64_t pinned_kept;   /* pinned memory that only the library holds */
    uint64_t unmap_pending; /* shared memory that the program has unmapped */
    struct gf_readahead_count readahead;
    struct gf_memcpy_count parallel_memcpy;
    /* Bytes held by the program, by the node of the pages. */
    uint64_t pinned_held[GF_NODE_BYTES_COUNT];
};

/* `ns` is the duration in the caller's thread. */
void gf_copy_stats_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);
void gf_copy_stats_rest(enum gf_direction direction, uint64_t bytes);
void gf_copy_stats_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes);
/* The duration of the driver's call for a copy that was counted as bypassed. */
void gf_copy_stats_driver_time(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes,
                               uint64_t ns);
void gf_copy_stats_stream_wait(void);
void gf_copy_stats_ring_grown(uint64_t bytes);
/* `dropped`: the ring ended with its context, which does not count as shrinking. */
void gf_copy_stats_ring_shrunk(uint64_t bytes, bool dropped);

/* The most bytes that all rings together had. */
uint64_t gf_copy_stats_ring_most(void);

/* The sums so far. Each counter is read atomically, but the counters together are no snapshot. */
void gf_copy_stats_read(struct gf_copy_stats *ret);

/* The token of a reason, such as "capture", and its words. */
const char *gf_bypass_name(enum gf_bypass reason);
const char *gf_bypass_text(enum gf_bypass reason);

#endif
