/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/block.h"

#include "transfer/plant.h"
#include "transfer/ring_parts.h"
#include "transfer/setup.h"
#include "transfer/tuning.h"

enum { block_none, block_held, block_under_way, block_asked, block_lost };

/* Locked. */
static bool cut(struct gf_ring *ring, struct gf_block *block, unsigned segment, unsigned from)
{
    block->segment = ring->segments[segment];
    if (!block->segment ||
        !gf_segment_take(block->segment, block->units, from, &block->first)) {
        block->segment = NULL;
        return false;
    }
    block->at = block->segment->at + block->first * GF_SEGMENT_UNIT;
    return true;
}

/* Locked. A bit for each segment that takes turns: the first that are no larger together. */
static unsigned turning(const struct gf_ring *ring)
{
    size_t left = GF_TUNE_RING_WINDOW;
    unsigned ret = 0;
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++) {
        const struct gf_segment *segment = ring->segments[i]; /* those given up leave holes */
        if (!segment || segment->bytes > left)
            continue;
        left -= segment->bytes;
        ret |= 1u << i;
    }
    return ret;
}

/*
 * Behind the block before it: memory that was just read from lies in the caches of those who read it,
 * from where a DMA into it has to drive it out first. Other segments, made for copies that stand on a
 * busy stream, only when those are full, so that they can be given up.
 */
static bool carve(struct gf_ring *ring, struct gf_block *block, size_t bytes)
{
    bool found = false;

    block->units = (unsigned)((bytes + GF_SEGMENT_UNIT - 1) / GF_SEGMENT_UNIT);
    block->bytes = bytes;
    pthread_mutex_lock(&ring->lock);
    const unsigned turns = turning(ring);
    for (unsigned i = 0; i <= GF_RING_SEGMENTS && !found; i++) { /* the first one's beginning comes last */
        found = turns >> ring->turn & 1 && cut(ring, block, ring->turn, ring->turn_unit);
        ring->turn_unit = found ? block->first + block->units : 0;
        ring->turn = found ? ring->turn : (ring->turn + 1) % GF_RING_SEGMENTS;
    }
    for (unsigned i = 0; i < GF_RING_SEGMENTS && !found; i++)
        found = !(turns >> i & 1) && cut(ring, block, i, 0);
    pthread_mutex_unlock(&ring->lock);
    return found;
}

static void free_units(struct gf_ring *ring, struct gf_block *block)
{
    if (block->segment) {
        pthread_mutex_lock(&ring->lock);
        gf_segment_give(block->segment, block->first, block->units);
        pthread_mutex_unlock(&ring->lock);
        block->segment = NULL;
    }
    __atomic_store_n(&block->state, block_none, __ATOMIC_RELEASE);
}

static bool change(struct gf_block *block, unsigned from, unsigned to)
{
    return __atomic_load_n(&block->state, __ATOMIC_RELAXED) == from &&
           __atomic_compare_exchange_n(&block->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

void gf_block_collect(struct gf_ring *ring)
{
    for (unsigned i = 0; i < GF_RING_BLOCKS && gf_ring_is_on(ring); i++) {
        struct gf_block *block = &ring->blocks[i];
        if (!change(block, block_under_way, block_asked))
            continue;
        const CUresult result = gf_block_query(block);
        if (result == CUDA_SUCCESS || GF_PLANTED(frees_busy_blocks)) {
            free_units(ring, block);
        } else if (result == CUDA_ERROR_NOT_READY) {
            gf_block_let_go(block);
        } else {
            gf_block_lose(block);
            gf_ring_turn_off(ring, "cuEventQuery", result);
        }
    }
}

static struct gf_block *take_descriptor(struct gf_ring *ring)
{
    for (unsigned i = 0; i < GF_RING_BLOCKS; i++)
        if (change(&ring->blocks[i], block_none, block_held))
            return &ring->blocks[i];
    return NULL;
}

struct gf_block *gf_block_take(struct gf_ring *ring, size_t bytes)
{
    struct gf_block *block = take_descriptor(ring);
    if (!block) {
        gf_block_collect(ring);
        block = take_descriptor(ring);
    }
    if (!block)
        return NULL;
    if (!block->event) {
        const CUresult result = gf_setup.cuda->cuEventCreate(&block->event, ring->event_flags);
        if (result != CUDA_SUCCESS) {
            block->event = NULL;
            gf_ring_turn_off(ring, "cuEventCreate", result);
            free_units(ring, block);
            return NULL;
        }
    }
    if (!bytes || carve(ring, block, bytes))
        return block;
    gf_block_collect(ring);
    if (carve(ring, block, bytes))
        return block;
    free_units(ring, block);
    return NULL;
}

void gf_block_give(struct gf_ring *ring, struct gf_block *block)
{
    free_units(ring, block);
}

void gf_block_let_go(struct gf_block *block)
{
    __atomic_store_n(&block->state, block_under_way, __ATOMIC_RELEASE);
}

void gf_block_lose(struct gf_block *block)
{
    __atomic_store_n(&block->state, block_lost, __ATOMIC_RELEASE);
}

CUresult gf_block_mark(const struct gf_block *block, CUstream stream)
{
    return gf_setup.cuda->cuEventRecord(block->event, stream);
}

CUresult gf_block_query(const struct gf_block *block)
{
    return gf_setup.cuda->cuEventQuery(block->event);
}

CUresult gf_block_wait(const struct gf_block *block)
{
    CUresult result;
    GF_PLANT_HOLD(holds_a_lock);
    do
        result = gf_setup.cuda->cuEventSynchronize(block->event);
    while (GF_PLANTED(waits_through_errors) && result != CUDA_SUCCESS);
    GF_PLANT_DROP(holds_a_lock);
    return result;
}
