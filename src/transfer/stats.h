/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of the copies that were large enough to be offered: counters for the report. Each
 * thread counts in one of a few shards, so that threads that copy at once do not meet.
 */
#ifndef GF_TRANSFER_STATS_H
#define GF_TRANSFER_STATS_H

#include "transfer/large.h"

/* Why a copy was the driver's, in the order in which it is found out; early only if the call says which way. X(token, words) */
#define GF_FORWARD_REASONS(X)                                                                      \
    X(early, "small and among the first")                                                          \
    X(pinned, "the driver knows the host memory: pinned, registered or managed")                   \
    X(ends, "not between pageable memory and a device")                                            \
    X(batch, "from the GPU, in a batch")                                                           \
    X(small, "smaller than what pays")                                                             \
    X(capture, "the stream is being captured")                                                     \
    X(stream, "the stream is of another or of a green context")                                    \
    X(context, "the context is green, unknown, ending, or one too many")                           \
    X(shares_pages, "the GPU reads pageable memory itself")                                        \
    X(device_memory, "managed, of another device, or with synchronous memory operations")          \
    X(range, "not all of the range is device memory")                                              \
    X(few_threads, "by CPUs, quota or option there are too few threads to be faster")              \
    X(off, "staging is off, by option or after a failure")                                         \
    X(crowded, "enough copies were being staged")                                                  \
    X(slower, "the driver was faster lately")                                                      \
    X(warming, "the ring was not there yet")                                                       \
    X(full, "other streams held the ring")                                                         \
    X(unreadable, "the program's memory could not be reached beforehand")                          \
    X(failed, "a call of ours failed before anything was issued")

enum gf_forward {
#define GF_FORWARD_ENUMERATOR(token, words) gf_forward_##token,
    GF_FORWARD_REASONS(GF_FORWARD_ENUMERATOR)
#undef GF_FORWARD_ENUMERATOR
    gf_forward_count,
};

enum gf_direction { gf_direction_h2d, gf_direction_d2h, gf_direction_count };

struct gf_tally_copy {
    uint64_t calls, bytes;
    /* Of these the ones whose calls were timed: how long they held up the caller, waits included. */
    uint64_t timed_bytes, timed_ns;
};

/*
 * Pageable copies are those staged and those forwarded for any reason but pinned and ends; of the early ones, which
 * are not timed, nobody knows. Bytes of a staged call whose rest went to the driver count for both: there under `rest`.
 */
struct gf_transfer_stats {
    /* [0] synchronous calls, [1] asynchronous ones */
    struct gf_tally_copy staged[gf_direction_count][2];
    struct gf_tally_copy rest[gf_direction_count]; /* the driver's part of staged copies */
    struct gf_tally_copy forwarded[gf_direction_count][2][gf_forward_count];
    uint64_t stream_waits; /* calls that waited for their own stream because the ring was too small */
    uint64_t ring_grown, ring_shrunk; /* times */
};

/* What there is now, of all devices. */
struct gf_transfer_state {
    uint64_t ring_bytes, ring_limit; /* registered; of all rings */
    uint64_t ring_most;              /* the most that was registered at one time */
    uint64_t ring_held[GF_LARGE_NODES + 1]; /* by the node that the pages are on; the last: not known */
    unsigned rings, helpers;
    const char *off; /* why nothing is staged; NULL */
};

/* Any thread. For the threads that copy. */
struct gf_copy_kind {
    enum gf_direction direction;
    bool async;
};
void gf_stats_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);
void gf_stats_rest(enum gf_direction direction, uint64_t bytes);
void gf_stats_forwarded(struct gf_copy_kind kind, enum gf_forward why, uint64_t bytes);
/* How long the driver's call for one that was forwarded took. */
void gf_stats_timed(struct gf_copy_kind kind, enum gf_forward why, uint64_t bytes, uint64_t ns);
void gf_stats_stream_wait(void);
void gf_stats_ring_grown(uint64_t bytes);
/* dropped: it went with its context. */
void gf_stats_ring_shrunk(uint64_t bytes, bool dropped);

/* The most that all rings together had. */
uint64_t gf_stats_ring_most(void);

/* The sums so far. Any thread; one moment's values of each, not of all. */
void gf_stats_read(struct gf_transfer_stats *ret);

/* "capture", and in words. */
const char *gf_forward_name(enum gf_forward why);
const char *gf_forward_text(enum gf_forward why);

#endif
