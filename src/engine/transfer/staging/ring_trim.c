/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring_trim.h"

#include "base/clock.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"
#include "engine/transfer/staging/ring_alloc.h"
#include "engine/transfer/staging/ring_due.h"
#include "engine/transfer/staging/ring_grow.h"
#include "engine/transfer/stats.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Whether memory has become short since the ring was last searched for unused segments. */
static bool is_short(const struct gf_ring *ring)
{
    return gf_ring_memory_was_short_ns() > gf_load_relaxed(&ring->looked_ns);
}

/*
 * If segment i was unused for longer than `idle_ns`, returns it, and allocates all its units, so
 * that no copy gets a slot in it. Else returns NULL.
 */
static struct gf_ring_segment *claim_stale(struct gf_ring *ring, unsigned i, uint64_t idle_ns)
{
    pthread_mutex_lock(&ring->lock);
    struct gf_ring_segment *segment = ring->segments[i];
    if (segment &&
        (!gf_ring_segment_is_unused(segment) || gf_now_ns() - segment->used_ns <= idle_ns))
        segment = NULL;
    if (segment)
        gf_ring_segment_claim(segment);
    pthread_mutex_unlock(&ring->lock);
    return segment;
}

/* Unregisters a segment. If the driver refuses, the segment stays in use. */
static bool unregister_segment(struct gf_ring *ring, unsigned i)
{
    struct gf_ring_segment *segment = ring->segments[i];
    const bool gone = gf_setup.cuda->cuMemHostUnregister(segment->at) == CUDA_SUCCESS;
    pthread_mutex_lock(&ring->lock);
    if (gone)
        ring->segments[i] = NULL;
    else
        gf_ring_segment_unclaim(segment);
    pthread_mutex_unlock(&ring->lock);
    return gone;
}

/* Returns the earliest time when a segment that is unused now is due for removal. */
static uint64_t next_trim_ns(struct gf_ring *ring)
{
    uint64_t last = gf_now_ns();
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i] && gf_ring_segment_is_unused(ring->segments[i]))
            last = gf_min(last, ring->segments[i]->used_ns);
    pthread_mutex_unlock(&ring->lock);
    return last + GF_TUNE_RING_IDLE_NS;
}

static void trim_segments(struct gf_ring *ring, uint64_t idle_ns)
{
    gf_slot_reclaim_all(ring);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++) {
        struct gf_ring_segment *segment = claim_stale(ring, i, idle_ns);
        if (segment && unregister_segment(ring, i))
            gf_ring_free_segment(ring, segment);
    }
    /*
     * The ring has no memory left, so no copy was staged for some time. A segment that is not
     * registered yet would stay unused.
     */
    if (!gf_ring_bytes(ring))
        gf_ring_growth_cancel(ring);
}

static void trim_ring(struct gf_ring *ring)
{
    const bool is_soon = is_short(ring);
    if (!is_soon && gf_now_ns() <= gf_load_relaxed(&ring->trim_ns))
        return;
    gf_store_relaxed(&ring->looked_ns, gf_now_ns());
    trim_segments(ring, is_soon ? GF_TUNE_RING_SHORT_NS : GF_TUNE_RING_IDLE_NS);
    gf_store_relaxed(&ring->trim_ns, next_trim_ns(ring));
}

static void find_next_trim(void *closure, struct gf_context *context)
{
    const struct gf_ring *ring = gf_load_acquire(&context->ring);
    uint64_t *next = closure;
    if (ring && gf_ring_bytes(ring))
        *next = gf_min(*next, gf_load_relaxed(&ring->trim_ns));
}

/*
 * Another context's ring may have unused segments, too. They are removed after the next call that
 * waits for that context's work.
 */
void gf_ring_trim(struct gf_context *context)
{
    struct gf_ring *ring = gf_load_acquire(&context->ring);
    uint64_t next = gf_now_ns() + GF_TUNE_RING_IDLE_NS;

    if (ring && gf_ring_bytes(ring))
        trim_ring(ring);
    gf_context_each(find_next_trim, &next);
    gf_ring_look_next(gf_max(next, gf_now_ns() + GF_TUNE_RING_LOOK_NS));
}

void gf_ring_end(struct gf_context *context)
{
    struct gf_ring *ring = gf_exchange_acq_rel(&context->ring, NULL);
    if (!ring)
        return;
    gf_ring_growth_cancel(ring);
    gf_copy_stats_ring_shrunk(gf_ring_bytes(ring), true);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i]) {
            munmap(ring->segments[i]->at, ring->segments[i]->bytes);
            free(ring->segments[i]);
        }
    pthread_mutex_destroy(&ring->lock);
    free(ring->memory);
}
