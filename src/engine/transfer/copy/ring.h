/* SPDX-License-Identifier: Apache-2.0 */
/* The staging ring: segments, slots, what is due. */
#pragma once

#include "base/atomic.h"
#include "base/base.h"
#include "engine/transfer/context.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"

#include <pthread.h>

/*
 * A segment of a ring: registered memory that is allocated in units. The caller holds the ring's
 * lock.
 */

#define GF_RING_SEGMENT_UNIT ((size_t)256 << 10)

struct gf_ring_segment {
    char *at;
    size_t bytes;
    unsigned units, used;
    unsigned abandoned; /* used units that become free only when the segment is removed */
    bool claimed;       /* by a trim, which unmaps it */
    int node;           /* the node of the pages, read when the segment was added; -1 if unknown */
    uint64_t used_ns;   /* the time when units were last freed */
    uint64_t map[];     /* a bit for each unit in use */
};

/*
 * The staging ring: pinned memory of one context, through which copies are staged. It consists of
 * segments. A segment is one mapping and one registration, because a DMA across two
 * registrations would fail. A copy acquires contiguous slots of a segment (ring.h).
 *
 * Segments are registered and removed only inside calls of the program. A copy requests a segment.
 * Helper threads touch the segment's pages while copies continue without it, and a later copy
 * registers it (ring_size.h). Segments that were unused for a minute are removed (ring_size.h). At
 * exit, segments stay mapped.
 *
 * No CUDA call is made under the ring's lock. During all CUDA calls of this room, the thread's
 * capture mode must be relaxed.
 */

#define GF_RING_SEGMENTS 16
#define GF_RING_SLOTS 512

/*
 * Memory of a ring that one chunk of a copy uses, and the event that is recorded after the chunk's
 * DMA.
 */
struct gf_slot {
    _Atomic unsigned state; /* used only in ring.c */
    unsigned first, units;
    struct gf_ring_segment *segment; /* NULL: the slot is an event without memory */
    char *at;
    CUevent event;
};

/* A segment that is not registered yet. A ring has at most one. Used only in ring_size.c. */
struct gf_ring_growth {
    _Atomic unsigned state;
    char *at;
    size_t bytes;
    bool reserved;     /* the segment consists of reserved huge pages (huge_pool.h) */
    unsigned passed;   /* number of copies that were too small to register the segment */
    _Atomic int error; /* errno of a page that could not be touched */
    struct gf_pieces job;
};

struct gf_ring {
    struct gf_context *context;
    void *memory; /* the allocation that holds this struct */
    /* guards the segments, their bit maps, next_segment and next_unit; an innermost lock */
    pthread_mutex_t lock;
    struct gf_ring_segment *segments[GF_RING_SEGMENTS];
    unsigned next_segment, next_unit; /* where the search for the memory of the next slot begins */
    _Atomic unsigned next_slot;       /* where the search for completed events begins */
    _Atomic unsigned slot_count;      /* slots that have an event; the others are not used */
    /*
     * The requested growth, in units of WISH_UNIT (ring_size.c). The upper 32 bits hold the least
     * number of units, the lower 32 bits the wanted number. 0: no request.
     */
    _Atomic uint64_t wish;
    /* The memory policy of the requested growth; written before the request is stored in `wish`. */
    struct gf_range_policy policy;
    struct gf_ring_growth growth;
    unsigned event_flags;
    _Atomic(CUstream) stream;
    _Atomic uint64_t limit;
    _Atomic uint64_t bytes;      /* number of registered bytes */
    _Atomic uint64_t growing;    /* bytes of the segment that is being added */
    _Atomic uint64_t trim_ns;    /* when ring_size.c is to search for unused segments next */
    _Atomic uint64_t looked_ns;  /* when ring_size.c last searched for unused segments */
    _Atomic uint64_t refused_ns; /* when growth was last refused for lack of memory; 0: never */
    /*
     * The number of next copies that do not wait for memory of other copies; used by ring_size.c.
     */
    _Atomic unsigned impatient;
    _Atomic bool waited_in_vain; /* a copy has waited in vain for the first segment */
    _Atomic bool off;
    /* the last member, because its pages are touched only after the first segment was added */
    struct gf_slot slots[GF_RING_SLOTS];
};

/* Returns the context's ring, which the first call creates. NULL: out of memory. */
struct gf_ring *gf_ring_of(struct gf_context *context);

/*
 * Creates the ring's stream, and events for as many slots as copies can take of `bytes` more bytes. A
 * copy itself creates none: on an H200, calls that create or register wait until calls of pageable
 * copies on other threads have returned, and these may wait for what the program does after this
 * copy. Called by the thread that owns the growth. False: *ret_fault describes the call that failed.
 */
bool gf_ring_equip(struct gf_ring *ring, size_t bytes, struct gf_fault *ret_fault);

/*
 * Returns a non-blocking stream of the library in the ring's context. The program does not know this
 * stream, so it cannot capture it. The stream ends with its context. NULL: the ring has no memory yet.
 */
CUstream gf_ring_stream(const struct gf_ring *ring);

/* Whether copies may use the ring. False after gf_ring_fail. */
bool gf_ring_is_on(const struct gf_ring *ring);

/*
 * Turns the ring off permanently after a failed call of the driver, and reports this once. If a
 * capture that began during the call may have caused the error, the ring stays on. An error that
 * the program caused is logged as information.
 */
void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error);
/* Turns the ring off permanently after any failed call, and reports this once. */
void gf_ring_fail(struct gf_ring *ring, const struct gf_fault *fault);

uint64_t gf_ring_bytes(const struct gf_ring *ring);
uint64_t gf_ring_limit(const struct gf_ring *ring);
/*
 * By how many bytes the ring may still grow. The limit applies to the sum of all rings of a GPU,
 * because each context of the GPU has a ring.
 */
uint64_t gf_ring_rest(const struct gf_ring *ring);

/*
 * Adds the bytes of each segment to the sum of its node in `held`, for the report. Adds nothing if
 * the lock is not free within 10 ms.
 */
void gf_ring_held(struct gf_ring *ring, uint64_t held[GF_NODE_BYTES_COUNT]);

/* Adds registered memory to the ring as a segment. The table of segments must have a free entry. */
void gf_ring_add_segment(struct gf_ring *ring, char *at, size_t bytes);
/*
 * Unmaps a segment that was removed from the table, frees its descriptor, and subtracts its bytes
 * from the ring's.
 */
void gf_ring_free_segment(struct gf_ring *ring, struct gf_ring_segment *segment);

/*
 * Slots. A slot is contiguous memory of a ring, and an event. A slot whose DMA is under way becomes
 * free when any copy finds that the slot's event has completed. A copy waits only for events of
 * slots that it acquired itself, so work on one stream never delays copies on another. The
 * functions may be called on any thread.
 */

/*
 * Acquires a slot of `bytes` bytes for the caller. If `bytes` is 0, the slot is only an event.
 * NULL: no such slot is free now.
 */
struct gf_slot *gf_slot_acquire(struct gf_ring *ring, size_t bytes) __attribute__((nonnull));
/* Frees a slot at once. The caller knows that no DMA uses the slot any more. */
void gf_slot_release(struct gf_ring *ring, struct gf_slot *slot);
/*
 * Lets a slot become free when its event has completed. The caller has recorded the event after the
 * slot's DMA.
 */
void gf_slot_release_on_event(struct gf_slot *slot);
/*
 * Frees a slot, but not its memory, because no event shows when its DMA has ended. The memory
 * becomes free when its segment is removed, because the driver then waits for the DMA.
 */
void gf_slot_abandon(struct gf_ring *ring, struct gf_slot *slot);

/*
 * Frees all slots whose events have completed, on any stream, also if the ring is off. Queries the
 * events and never waits.
 */
void gf_slot_reclaim_all(struct gf_ring *ring);

/* Waits for the slot's event. */
CUresult gf_slot_wait(const struct gf_slot *slot);
