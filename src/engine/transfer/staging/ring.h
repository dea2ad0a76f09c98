/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging ring: pinned memory of one context, through which copies are staged. It consists of
 * segments. A segment is one mapping and one registration, because a DMA across two
 * registrations would fail. A copy acquires contiguous slots of a segment (ring_alloc.h).
 *
 * Segments are added and removed only inside calls of the program. A copy requests a segment,
 * helper threads touch its pages while copies continue without it, and a later copy registers it
 * (ring_grow.h). Segments that were unused for long are removed (ring_trim.h). No segment is
 * unmapped at exit.
 *
 * No CUDA call is made under the ring's lock. The capture mode of the thread must be relaxed for
 * all CUDA calls of this room.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_H
#define GF_ENGINE_TRANSFER_STAGING_RING_H

#include "base/atomic.h"
#include "engine/transfer/context/context.h"
#include "engine/transfer/memory/range_policy.h"
#include "engine/transfer/setup/notify.h"
#include "engine/transfer/staging/ring_segment.h"
#include "engine/transfer/stats/node_bytes.h"

#include <pthread.h>

#define GF_RING_SEGMENTS 16
#define GF_RING_SLOTS 512

/* Memory of a ring that a copy holds, and the event that is recorded after its DMA. */
struct gf_slot {
    _Atomic unsigned state; /* owned by ring_alloc.c */
    unsigned first, units;
    struct gf_ring_segment *segment; /* NULL: the slot is an event without memory */
    char *at;
    CUevent event;
};

/* A segment that is not registered yet: at most one for each ring. Owned by ring_grow.c. */
struct gf_ring_growth {
    _Atomic unsigned state;
    char *at;
    size_t bytes;
    bool reserved;     /* reserved huge pages (huge_pool.h) */
    unsigned passed;   /* number of copies that left the registration to a larger copy */
    _Atomic int error; /* errno of a page that could not be touched */
    struct gf_job job;
};

struct gf_ring {
    struct gf_context *context;
    void *memory;         /* the allocation that holds this struct */
    pthread_mutex_t lock; /* guards segments, their maps, and next_*; the innermost lock */
    struct gf_ring_segment *segments[GF_RING_SEGMENTS];
    unsigned next_segment, next_unit; /* where the search for the next slot begins */
    /*
     * The requested growth: the least number of units in the upper 32 bits, the wanted number in
     * the lower ones. 0: none.
     */
    _Atomic uint64_t wish;
    /* Memory policy of that growth; written before the request is published. */
    struct gf_range_policy policy;
    struct gf_ring_growth growth;
    unsigned event_flags;
    _Atomic(CUstream) stream;
    _Atomic uint64_t limit;
    _Atomic uint64_t bytes;      /* registered */
    _Atomic uint64_t trim_ns;    /* when to search for unused segments next; owned by ring_trim.c */
    _Atomic uint64_t looked_ns;  /* when ring_trim.c last looked for segments to remove */
    _Atomic uint64_t refused_ns; /* when growth was last refused for lack of memory; 0: never */
    /* So many copies do not wait for other copies; owned by ring_patience.c. */
    _Atomic unsigned impatient;
    _Atomic bool off;
    /* the last member: its pages are touched with the first segment */
    struct gf_slot slots[GF_RING_SLOTS];
};

/* The context's ring, which the first call creates. NULL: out of memory. */
struct gf_ring *gf_ring_of(struct gf_context *context);

/*
 * A non-blocking stream of the library in the ring's context, which the first call creates. No
 * program can capture it. It ends with its context. NULL: the driver refused, and the ring is off.
 */
CUstream gf_ring_stream(struct gf_ring *ring);

/* False after gf_ring_fail. */
bool gf_ring_is_on(const struct gf_ring *ring);

/*
 * Turns the ring off for good after a failed call of the driver, and notifies once. An error is
 * ignored if a capture that began during the call may have caused it. An error that the program
 * caused is logged as information.
 */
void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error);
/* Turns the ring off for any fault. */
void gf_ring_fail(struct gf_ring *ring, const struct gf_fault *fault);

uint64_t gf_ring_bytes(const struct gf_ring *ring);
uint64_t gf_ring_limit(const struct gf_ring *ring);

/*
 * Adds the ring's bytes to the sums of their nodes, for the report. Adds nothing if the lock is not
 * free in time.
 */
void gf_ring_held(struct gf_ring *ring, uint64_t held[GF_NODE_BYTES_COUNT]);

/* Adds registered memory as a segment. The table of segments must have a free entry. */
void gf_ring_add_segment(struct gf_ring *ring, char *at, size_t bytes);
/* Counts a segment that was removed, and frees its memory. */
void gf_ring_free_segment(struct gf_ring *ring, struct gf_ring_segment *segment);

#endif
