/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/ring.h"

#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/tuning.h"

#include <stdlib.h>

/* Slots of a ring beyond its units, for copies that need only an event. */
#define SPARE_SLOTS 64u

/*
 * Creates the descriptor of a segment. The caller frees it with free(), which does not unmap the
 * memory. NULL: out of memory.
 */
static struct gf_ring_segment *gf_ring_segment_new(char *at, size_t bytes)
{
    const unsigned units = (unsigned)(bytes / GF_RING_SEGMENT_UNIT);
    struct gf_ring_segment *segment =
        calloc(1, sizeof(*segment) + (units + 63) / 64 * sizeof(segment->map[0]));

    if (segment)
        *segment = (struct gf_ring_segment){
            .at = at, .bytes = bytes, .units = units, .used_ns = gf_now_ns()};
    return segment;
}

static bool is_unit_free(const struct gf_ring_segment *segment, unsigned unit)
{
    return !(segment->map[unit / 64] >> unit % 64 & 1);
}

static void mark_units(struct gf_ring_segment *segment, unsigned first, unsigned units, bool used)
{
    for (unsigned i = first; i < first + units; i++)
        if (used)
            segment->map[i / 64] |= UINT64_C(1) << i % 64;
        else
            segment->map[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/*
 * Allocates the first `units` contiguous free units at or after unit `from`. False: there are no
 * such units.
 */
static bool gf_ring_segment_alloc(struct gf_ring_segment *segment, unsigned units, unsigned from,
                                  unsigned *ret_first)
{
    unsigned run = 0;

    if (units > segment->units - segment->used)
        return false;
    for (unsigned i = from; i < segment->units; i++) {
        run = is_unit_free(segment, i) ? run + 1 : 0;
        if (run < units)
            continue;
        *ret_first = i + 1 - units;
        mark_units(segment, *ret_first, units, true);
        segment->used += units;
        return true;
    }
    return false;
}

static void gf_ring_segment_free(struct gf_ring_segment *segment, unsigned first, unsigned units)
{
    mark_units(segment, first, units, false);
    segment->used -= units;
    segment->used_ns = gf_now_ns();
}

/*
 * Returns the flags for the ring's events. If the program chose that its threads sleep while they
 * wait for the GPU, a thread that waits for an event of the ring must sleep, too.
 */
static unsigned event_flags(void)
{
    unsigned flags = 0, ret = CU_EVENT_DISABLE_TIMING;
    if (gf_setup.cuda->cuCtxGetFlags && gf_setup.cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        ret |= CU_EVENT_BLOCKING_SYNC;
    return ret;
}

/*
 * Allocates an aligned struct, because a member of its job needs a cache line of its own. Most of
 * the struct is slots, and touching them would delay a process's first large copy. calloc does not
 * touch fresh pages.
 */
static struct gf_ring *new_ring(void)
{
    const uintptr_t line = _Alignof(struct gf_ring);
    char *memory = calloc(1, sizeof(struct gf_ring) + line - 1);
    struct gf_ring *ring = (struct gf_ring *)(((uintptr_t)memory + line - 1) & ~(line - 1));
    if (!memory)
        return NULL;
    ring->memory = memory;
    return ring;
}

struct gf_ring *gf_ring_of(struct gf_context *context)
{
    struct gf_ring *ring = gf_load_acquire(&context->ring), *none = NULL;
    const uint64_t wish = gf_setup.options->stage_ring;
    if (ring)
        return ring;
    ring = new_ring();
    if (!ring)
        return NULL;
    ring->context = context;
    pthread_mutex_init(&ring->lock, NULL);
    ring->event_flags = event_flags();
    gf_store_relaxed(&ring->limit, wish == GF_SIZE_AUTO ? GF_TUNE_RING_LIMIT : wish);
    if (gf_cas_acq_rel(&context->ring, &none, ring))
        return ring;
    free(ring->memory);
    return none;
}

CUstream gf_ring_stream(const struct gf_ring *ring)
{
    return gf_load_acquire(&ring->stream);
}

bool gf_ring_equip(struct gf_ring *ring, size_t bytes, struct gf_fault *ret_fault)
{
    unsigned slots = gf_load_relaxed(&ring->slot_count);
    const unsigned wanted =
        (unsigned)gf_min(gf_max(slots, SPARE_SLOTS) + bytes / GF_RING_SEGMENT_UNIT, GF_RING_SLOTS);
    CUstream stream = gf_load_relaxed(&ring->stream);

    *ret_fault = (struct gf_fault){.call = "cuStreamCreateWithPriority"};
    if (!stream) {
        ret_fault->result =
            gf_setup.cuda->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
        if (ret_fault->result != CUDA_SUCCESS)
            return false;
        gf_store_release(&ring->stream, stream);
    }
    ret_fault->call = "cuEventCreate";
    for (; slots < wanted; gf_store_release(&ring->slot_count, ++slots)) {
        ret_fault->result =
            gf_setup.cuda->cuEventCreate(&ring->slots[slots].event, ring->event_flags);
        if (ret_fault->result != CUDA_SUCCESS)
            return false;
    }
    return true;
}

bool gf_ring_is_on(const struct gf_ring *ring)
{
    return !gf_load_relaxed(&ring->off);
}

void gf_ring_fail(struct gf_ring *ring, const struct gf_fault *fault)
{
    char why[96];
    if (gf_exchange_relaxed(&ring->off, true))
        return;
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_notify(gf_transfer_off, gf_fault_level(fault),
                       "GPU %d: %s; copies are left to the driver from now on",
                       ring->context->device, why);
}

void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error)
{
    if (gf_is_capture_error(error))
        return;
    gf_ring_fail(ring, &(struct gf_fault){.call = call, .result = error});
}

uint64_t gf_ring_bytes(const struct gf_ring *ring)
{
    return gf_load_relaxed(&ring->bytes);
}

uint64_t gf_ring_limit(const struct gf_ring *ring)
{
    return gf_load_relaxed(&ring->limit);
}

uint64_t gf_ring_rest(const struct gf_ring *ring)
{
    const uint64_t wish = gf_setup.options->stage_ring, bytes = gf_ring_bytes(ring);
    const uint64_t most = wish == GF_SIZE_AUTO ? GF_TUNE_RING_LIMIT : wish;
    const uint64_t own = gf_ring_limit(ring) - gf_min(gf_ring_limit(ring), bytes);
    uint64_t all = 0;

    GF_EACH_CONTEXT(context) {
        const struct gf_ring *other = gf_load_acquire(&context->ring);
        if (other && context->device == ring->context->device)
            all += gf_ring_bytes(other) + gf_load_relaxed(&other->growing);
    }
    return gf_min(own, most - gf_min(most, all));
}

void gf_ring_held(struct gf_ring *ring, uint64_t held[GF_NODE_BYTES_COUNT])
{
    if (!gf_timed_lock(&ring->lock))
        return;
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i])
            gf_node_bytes_add(held, ring->segments[i]->node, ring->segments[i]->bytes);
    pthread_mutex_unlock(&ring->lock);
}

static void notify_size(const struct gf_ring *ring, const char *what, uint64_t bytes)
{
    gf_transfer_notify(gf_transfer_ring, GF_LOG_DEBUG, "GPU %d: the staging ring %s to %lu MiB",
                       ring->context->device, what, bytes >> 20);
}

void gf_ring_add_segment(struct gf_ring *ring, char *at, size_t bytes)
{
    struct gf_ring_segment *segment = gf_ring_segment_new(at, bytes);
    if (!segment)
        return; /* out of memory: the range stays registered but unused */
    segment->node = gf_range_node_read(at, bytes);
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (!ring->segments[i]) {
            ring->segments[i] = segment;
            break;
        }
    pthread_mutex_unlock(&ring->lock);
    const uint64_t now = gf_add_relaxed(&ring->bytes, bytes) + bytes;
    gf_copy_stats_ring_grown(bytes);
    notify_size(ring, "has grown", now);
}

void gf_ring_free_segment(struct gf_ring *ring, struct gf_ring_segment *segment)
{
    munmap(segment->at, segment->bytes);
    gf_copy_stats_ring_shrunk(segment->bytes, false);
    notify_size(ring, "has shrunk", gf_sub_relaxed(&ring->bytes, segment->bytes) - segment->bytes);
    free(segment);
}

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
    const CUresult result = gf_setup.cuda->cuEventQuery(slot->event);
    if (result == CUDA_SUCCESS) {
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
    const unsigned count = gf_load_acquire(&ring->slot_count);
    unsigned busy = 0;

    for (unsigned i = 0; i < count && busy < RECLAIM_BUSY && gf_ring_is_on(ring); i++) {
        const unsigned number = (first + i) % count;
        busy += !reclaim_slot(ring, &ring->slots[number]);
        gf_store_relaxed(&ring->next_slot, number + 1);
    }
}

void gf_slot_reclaim_all(struct gf_ring *ring)
{
    for (unsigned i = 0; i < gf_load_acquire(&ring->slot_count); i++)
        reclaim_slot(ring, &ring->slots[i]);
}

static struct gf_slot *find_slot(struct gf_ring *ring)
{
    for (unsigned i = 0; i < gf_load_acquire(&ring->slot_count); i++)
        if (change_slot(&ring->slots[i], slot_free, slot_held))
            return &ring->slots[i];
    return NULL;
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
    if (!bytes || alloc_units(ring, slot, bytes))
        return slot;
    reclaim_some(ring);
    if (alloc_units(ring, slot, bytes))
        return slot;
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
        slot->segment->abandoned += slot->units;
        slot->segment->used_ns = gf_now_ns();
        pthread_mutex_unlock(&ring->lock);
        slot->segment = NULL;
    }
    gf_store_release(&slot->state, slot_free);
}

CUresult gf_slot_wait(const struct gf_slot *slot)
{
    return gf_setup.cuda->cuEventSynchronize(slot->event);
}
