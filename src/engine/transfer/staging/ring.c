/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring.h"

#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"
#include "engine/transfer/staging/ring_due.h"
#include "engine/transfer/stats.h"

#include <stdlib.h>
#include <sys/mman.h>

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

CUstream gf_ring_stream(struct gf_ring *ring)
{
    CUstream stream = gf_load_acquire(&ring->stream), none = NULL;
    if (gf_likely(stream != NULL))
        return stream;
    const CUresult result =
        gf_setup.cuda->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) {
        gf_ring_turn_off(ring, "cuStreamCreateWithPriority", result);
        return NULL;
    }
    if (gf_cas_acq_rel(&ring->stream, &none, stream))
        return stream;
    /* another thread has just created the ring's stream */
    gf_setup.cuda->cuStreamDestroy_v2(stream);
    return none;
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

struct device_sum {
    CUdevice device;
    uint64_t bytes;
};

static void add_ring(void *closure, struct gf_context *context)
{
    struct device_sum *sum = closure;
    const struct gf_ring *ring = gf_load_acquire(&context->ring);
    if (ring && context->device == sum->device)
        sum->bytes += gf_ring_bytes(ring) + gf_load_relaxed(&ring->growing);
}

uint64_t gf_ring_rest(const struct gf_ring *ring)
{
    const uint64_t wish = gf_setup.options->stage_ring, bytes = gf_ring_bytes(ring);
    const uint64_t most = wish == GF_SIZE_AUTO ? GF_TUNE_RING_LIMIT : wish;
    const uint64_t own = gf_ring_limit(ring) - gf_min(gf_ring_limit(ring), bytes);
    struct device_sum sum = {.device = ring->context->device};

    gf_context_each(add_ring, &sum);
    return gf_min(own, most - gf_min(most, sum.bytes));
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
    gf_transfer_notify(gf_transfer_ring, GF_LOG_DEBUG, "GPU %d: the staging ring %s to %llu MiB",
                       ring->context->device, what, (unsigned long long)(bytes >> 20));
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
    gf_store_relaxed(&ring->trim_ns, gf_now_ns() + GF_TUNE_RING_IDLE_NS);
    gf_ring_look_at(gf_load_relaxed(&ring->trim_ns));
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
