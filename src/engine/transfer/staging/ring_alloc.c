/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring_alloc.h"

#include "engine/transfer/mutation.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

/* The most unfinished events that one search queries. */
#define RECLAIM_BUSY 32u

enum { slot_free, slot_held, slot_under_way, slot_queried };

/* Allocates the slot's memory in one segment, at or after unit `from`. The lock is held. */
static bool alloc_in(struct gf_ring *ring, struct gf_slot *slot, unsigned segment, unsigned from)
{
    slot->segment = ring->segments[segment];
    if (!slot->segment || !gf_ring_segment_alloc(slot->segment, slot->units, from, &slot->first)) {
        slot->segment = NULL;
        return false;
    }
    slot->at = slot->segment->at + slot->first * GF_RING_SEGMENT_UNIT;
    return true;
}

/*
 * Returns the rotation: a set bit for each segment that copies use in turn. The rotation consists
 * of the first segments whose sizes sum to at most GF_TUNE_RING_WINDOW. Called with the lock held.
 */
static unsigned rotation_of(const struct gf_ring *ring)
{
    size_t left = GF_TUNE_RING_WINDOW;
    unsigned ret = 0;
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++) {
        /* Removed segments leave gaps in the table. */
        const struct gf_ring_segment *segment = ring->segments[i];
        if (!segment || segment->bytes > left)
            continue;
        left -= segment->bytes;
        ret |= 1u << i;
    }
    return ret;
}

/*
 * Allocates memory for a slot. A slot begins where the previous slot ended, so memory is reused as
 * late as possible. Memory that threads have just read is in their caches, and a DMA into it would
 * first have to evict it from these caches. Segments outside the rotation were added for copies on
 * busy streams. They are used only when the rotation is full, so that they become unused at other
 * times and can be removed.
 */
static bool alloc_units(struct gf_ring *ring, struct gf_slot *slot, size_t bytes)
{
    bool found = false;

    slot->units = (unsigned)((bytes + GF_RING_SEGMENT_UNIT - 1) / GF_RING_SEGMENT_UNIT);
    pthread_mutex_lock(&ring->lock);
    const unsigned rotation = rotation_of(ring);
    /*
     * The loop makes one iteration more than there are segments, because the part of the first
     * segment before next_unit is searched last.
     */
    for (unsigned i = 0; i <= GF_RING_SEGMENTS && !found; i++) {
        found = rotation >> ring->next_segment & 1 &&
                alloc_in(ring, slot, ring->next_segment, ring->next_unit);
        ring->next_unit = found ? slot->first + slot->units : 0;
        ring->next_segment =
            found ? ring->next_segment : (ring->next_segment + 1) % GF_RING_SEGMENTS;
    }
    for (unsigned i = 0; i < GF_RING_SEGMENTS && !found; i++)
        found = !(rotation >> i & 1) && alloc_in(ring, slot, i, 0);
    pthread_mutex_unlock(&ring->lock);
    return found;
}

static bool change_slot(struct gf_slot *slot, unsigned from, unsigned to)
{
    return gf_load_relaxed(&slot->state) == from && gf_cas_acq_rel(&slot->state, &from, to);
}

/* Frees the slot if its event has completed. Returns false if it has not. */
static bool reclaim_slot(struct gf_ring *ring, struct gf_slot *slot)
{
    if (!change_slot(slot, slot_under_way, slot_queried))
        return true;
    const CUresult result = gf_slot_query(slot);
    if (result == CUDA_SUCCESS || GF_MUTATED(frees_busy_blocks)) {
        gf_slot_release(ring, slot);
    } else if (result == CUDA_ERROR_NOT_READY) {
        gf_slot_release_on_event(slot);
        return false;
    } else {
        gf_slot_abandon(ring, slot);
        gf_ring_turn_off(ring, "cuEventQuery", result);
    }
    return true;
}

/*
 * Frees slots for a copy. While the GPU is far behind, each copy would query hundreds of events. So
 * the search ends after RECLAIM_BUSY unfinished events, and the next search begins behind them.
 */
static void reclaim_some(struct gf_ring *ring)
{
    const unsigned first = gf_load_relaxed(&ring->next_slot);
    unsigned busy = 0;

    for (unsigned i = 0; i < GF_RING_SLOTS && busy < RECLAIM_BUSY && gf_ring_is_on(ring); i++) {
        const unsigned number = (first + i) % GF_RING_SLOTS;
        busy += !reclaim_slot(ring, &ring->slots[number]);
        gf_store_relaxed(&ring->next_slot, number + 1);
    }
}

void gf_slot_reclaim_all(struct gf_ring *ring)
{
    for (unsigned i = 0; i < GF_RING_SLOTS; i++)
        reclaim_slot(ring, &ring->slots[i]);
}

static struct gf_slot *find_slot(struct gf_ring *ring)
{
    for (unsigned i = 0; i < GF_RING_SLOTS; i++)
        if (change_slot(&ring->slots[i], slot_free, slot_held))
            return &ring->slots[i];
    return NULL;
}

static bool create_event(struct gf_ring *ring, struct gf_slot *slot)
{
    const CUresult result = gf_setup.cuda->cuEventCreate(&slot->event, ring->event_flags);
    if (result == CUDA_SUCCESS)
        return true;
    slot->event = NULL;
    gf_ring_turn_off(ring, "cuEventCreate", result);
    return false;
}

struct gf_slot *gf_slot_acquire(struct gf_ring *ring, size_t bytes)
{
    struct gf_slot *slot = find_slot(ring);
    if (!slot) {
        reclaim_some(ring);
        slot = find_slot(ring);
    }
    if (!slot)
        return NULL;
    if (slot->event || create_event(ring, slot)) {
        if (!bytes || alloc_units(ring, slot, bytes))
            return slot;
        reclaim_some(ring);
        if (alloc_units(ring, slot, bytes))
            return slot;
    }
    gf_slot_release(ring, slot);
    return NULL;
}

void gf_slot_release(struct gf_ring *ring, struct gf_slot *slot)
{
    if (slot->segment) {
        pthread_mutex_lock(&ring->lock);
        gf_ring_segment_free(slot->segment, slot->first, slot->units);
        pthread_mutex_unlock(&ring->lock);
        slot->segment = NULL;
    }
    gf_store_release(&slot->state, slot_free);
}

void gf_slot_release_on_event(struct gf_slot *slot)
{
    gf_store_release(&slot->state, slot_under_way);
}

void gf_slot_abandon(struct gf_ring *ring, struct gf_slot *slot)
{
    if (slot->segment) {
        pthread_mutex_lock(&ring->lock);
        gf_ring_segment_abandon(slot->segment, slot->units);
        pthread_mutex_unlock(&ring->lock);
        slot->segment = NULL;
    }
    gf_store_release(&slot->state, slot_free);
}

CUresult gf_slot_record(const struct gf_slot *slot, CUstream stream)
{
    return gf_setup.cuda->cuEventRecord(slot->event, stream);
}

CUresult gf_slot_query(const struct gf_slot *slot)
{
    return gf_setup.cuda->cuEventQuery(slot->event);
}

CUresult gf_slot_wait(const struct gf_slot *slot)
{
    CUresult result;
    GF_MUTATION_HOLD(holds_a_lock);
    do
        result = gf_setup.cuda->cuEventSynchronize(slot->event);
    while (GF_MUTATED(waits_through_errors) && result != CUDA_SUCCESS);
    GF_MUTATION_DROP(holds_a_lock);
    return result;
}
