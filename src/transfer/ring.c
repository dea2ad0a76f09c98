/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/ring.h"

#include "base/clock.h"
#include "host/headroom.h"
#include "transfer/block.h"
#include "transfer/briefly.h"
#include "transfer/extent.h"
#include "transfer/prepare.h"
#include "transfer/ring_parts.h"
#include "transfer/setup.h"
#include "transfer/stats.h"
#include "transfer/tell.h"
#include "transfer/tuning.h"

#include <stdlib.h>
#include <sys/mman.h>

#define WISH_UNIT GF_TUNE_RING_FIRST_LEAST

static uint64_t due_ns; /* atomic: when to look for what was long unused; 0: there is no ring */

/* Making one. */

static unsigned event_flags(void)
{
    unsigned flags = 0, ret = CU_EVENT_DISABLE_TIMING;
    /* Who asked the driver to sleep while waiting would not see us spin. */
    if (gf_setup.cuda->cuCtxGetFlags && gf_setup.cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        ret |= CU_EVENT_BLOCKING_SYNC;
    return ret;
}

/*
 * A job in it has a line of its own. Zero by calloc, which may know that fresh pages are: they are most of it, and
 * what touches them all would be a process's first large copy.
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
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE), *none = NULL;
    const uint64_t wish = gf_setup.options->stage_ring;
    if (ring)
        return ring;
    ring = new_ring();
    if (!ring)
        return NULL;
    ring->context = context;
    pthread_mutex_init(&ring->lock, NULL);
    ring->event_flags = event_flags();
    ring->limit = wish == GF_SIZE_AUTO ? GF_TUNE_RING_LIMIT : wish;
    if (__atomic_compare_exchange_n(&context->ring, &none, ring, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return ring;
    free(ring->memory);
    return none;
}

bool gf_ring_is_on(const struct gf_ring *ring)
{
    return !__atomic_load_n(&ring->off, __ATOMIC_RELAXED);
}

/* What every call answers once the program's own work has broken the context. */
static bool is_the_programs(CUresult error)
{
    return error == CUDA_ERROR_CONTEXT_IS_DESTROYED || error == CUDA_ERROR_DEINITIALIZED ||
           (error >= CUDA_ERROR_ILLEGAL_ADDRESS && error <= CUDA_ERROR_LAUNCH_TIMEOUT) ||
           (error >= CUDA_ERROR_ASSERT && error <= CUDA_ERROR_LAUNCH_FAILED);
}

static enum gf_log_level level_of(const struct gf_fault *fault)
{
    return is_the_programs(fault->result) ? GF_LOG_INFO : GF_LOG_WARN;
}

static void turn_off(struct gf_ring *ring, const struct gf_fault *fault)
{
    char why[96];
    if (__atomic_exchange_n(&ring->off, 1, __ATOMIC_RELAXED))
        return;
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_tell(gf_transfer_off, level_of(fault),
                     "GPU %d: copies are left to the driver from now on: %s", ring->context->device,
                     why);
}

/* A capture on a blocking stream has begun since it was asked for; the driver's own copy is refused likewise. */
static bool is_a_captures(CUresult error)
{
    return error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error)
{
    if (is_a_captures(error))
        return;
    turn_off(ring, &(struct gf_fault){.call = call, .result = error});
}

uint64_t gf_ring_bytes(const struct gf_ring *ring)
{
    return __atomic_load_n(&ring->bytes, __ATOMIC_RELAXED);
}

uint64_t gf_ring_limit(const struct gf_ring *ring)
{
    return __atomic_load_n(&ring->limit, __ATOMIC_RELAXED);
}

void gf_ring_held(struct gf_ring *ring, uint64_t held[GF_LARGE_NODES + 1])
{
    if (!gf_lock_briefly(&ring->lock))
        return;
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i]) {
            const int node = ring->segments[i]->node;
            const bool known = node >= 0 && node < GF_LARGE_NODES;
            held[known ? node : GF_LARGE_NODES] += ring->segments[i]->bytes;
        }
    pthread_mutex_unlock(&ring->lock);
}

/* Growing. */

static void tell_size(const struct gf_ring *ring, const char *what, uint64_t bytes)
{
    gf_transfer_tell(gf_transfer_ring, GF_LOG_DEBUG, "GPU %d: the ring for copies %s to %llu MiB",
                     ring->context->device, what, (unsigned long long)(bytes >> 20));
}

static void add_segment(struct gf_ring *ring, char *at, size_t bytes)
{
    struct gf_segment *segment = gf_segment_new(at, bytes);
    if (!segment)
        return; /* stays registered, and is of no use: memory is at its end anyway */
    segment->node = gf_extent_node(at, bytes);
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (!ring->segments[i]) {
            ring->segments[i] = segment;
            break;
        }
    pthread_mutex_unlock(&ring->lock);
    const uint64_t now = __atomic_add_fetch(&ring->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&due_ns, gf_now_ns() + GF_TUNE_RING_IDLE_NS, __ATOMIC_RELAXED);
    gf_stats_ring_grown(bytes);
    tell_size(ring, "has grown", now);
}

/* What the ring may still take: of its own limit, and of what control group and host can spare. */
static uint64_t room(struct gf_ring *ring)
{
    struct gf_headroom left;
    const uint64_t bytes = gf_ring_bytes(ring);
    const uint64_t limit = gf_ring_limit(ring), own = limit > bytes ? limit - bytes : 0;
    if (!own)
        return 0;
    gf_headroom_read("", ring->context->node, &left);
    return gf_min(own, left.bytes / GF_TUNE_RING_SHARE);
}

static bool has_place(struct gf_ring *ring)
{
    bool found = false;
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        found |= !ring->segments[i];
    pthread_mutex_unlock(&ring->lock);
    return found;
}

static bool was_refused(struct gf_ring *ring)
{
    const uint64_t at = __atomic_load_n(&ring->refused_ns, __ATOMIC_RELAXED);
    return at && gf_now_ns() - at < GF_TUNE_RING_RETRY_NS;
}

/* It keeps what it has, which may be nothing. */
static void stay(struct gf_ring *ring, const struct gf_fault *fault)
{
    const uint64_t bytes = gf_ring_bytes(ring);
    char why[96];

    __atomic_store_n(&ring->limit, bytes, __ATOMIC_RELAXED);
    if (!bytes) {
        turn_off(ring, fault);
        return;
    }
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_tell(gf_transfer_ring, level_of(fault),
                     "GPU %d: the ring for copies stays at %llu MiB: %s", ring->context->device,
                     (unsigned long long)(bytes >> 20), why);
}

/* Looking for room reads files, and mapping takes its time: neither is the copying call's. */
static void ask(struct gf_ring *ring, size_t least, size_t bytes, enum gf_when when)
{
    const uint64_t wish = least / WISH_UNIT << 32 | bytes / WISH_UNIT;
    uint64_t none = 0;

    if (!gf_growth_is_on(&ring->growth) && !was_refused(ring) &&
        __atomic_compare_exchange_n(&ring->wish, &none, wish, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        gf_prepare_ring(ring, when);
}

static void grow(struct gf_ring *ring, size_t least, size_t bytes)
{
    struct gf_fault fault;

    bytes = gf_min(bytes, room(ring)) & ~(GF_TUNE_RING_FIRST_LEAST - 1);
    if (bytes < least || !has_place(ring))
        __atomic_store_n(&ring->refused_ns, gf_now_ns(), __ATOMIC_RELAXED);
    else if (!gf_growth_start(&ring->growth, ring->context, bytes, &fault))
        stay(ring, &fault);
}

void gf_ring_prepare(struct gf_ring *ring)
{
    const uint64_t wish = __atomic_load_n(&ring->wish, __ATOMIC_ACQUIRE);

    if (!wish)
        return;
    if (!gf_growth_is_on(&ring->growth))
        grow(ring, (size_t)(wish >> 32) * WISH_UNIT, (size_t)(uint32_t)wish * WISH_UNIT);
    __atomic_store_n(&ring->wish, 0, __ATOMIC_RELEASE);
}

static void take_in(struct gf_ring *ring, size_t bytes)
{
    struct gf_fault fault;
    char *at;
    size_t size;
    /* What it costs to register the first is a part of what the copy gains; later ones are earned. */
    const size_t most = gf_ring_bytes(ring) ? 2 * (bytes + GF_TUNE_RING_FIRST_LEAST) : bytes / 2;

    switch (gf_growth_finish(&ring->growth, ring->context, most, &at, &size, &fault)) {
    case gf_grown_not:
        break;
    case gf_grown_ready:
        add_segment(ring, at, size);
        break;
    case gf_grown_failed:
        stay(ring, &fault);
        break;
    }
}

/* The largest power of two within the bounds that is not above. */
static size_t first_size(size_t bytes)
{
    size_t ret = GF_TUNE_RING_FIRST_LEAST;
    while (ret * 2 <= bytes && ret < GF_TUNE_RING_FIRST_MOST)
        ret *= 2;
    return ret;
}

bool gf_ring_ready(struct gf_ring *ring, size_t bytes)
{
    if (gf_growth_is_on(&ring->growth))
        take_in(ring, bytes);
    else if (!gf_ring_bytes(ring))
        ask(ring, GF_TUNE_RING_FIRST_LEAST, first_size(bytes / 2), gf_when_for(bytes));
    return gf_ring_bytes(ring) != 0;
}

/* What its limit does not allow would be refused, and what it does allow with it for a while. */
static void want(struct gf_ring *ring, size_t bytes, size_t most)
{
    const size_t unit = GF_TUNE_RING_FIRST_LEAST;
    const size_t least = (bytes + unit - 1) & ~(unit - 1);
    const uint64_t now = gf_ring_bytes(ring);
    if (now + least <= gf_ring_limit(ring))
        ask(ring, least, gf_min(gf_max(2 * least, (size_t)now), gf_max(least, most)), gf_when_now);
}

void gf_ring_want(struct gf_ring *ring, size_t bytes)
{
    const uint64_t calls = gf_max(__atomic_load_n(&ring->context->running, __ATOMIC_RELAXED), 1u);
    const uint64_t most = gf_max((uint64_t)GF_TUNE_RING_WINDOW, calls * GF_TUNE_RING_AHEAD * bytes);
    if (gf_ring_bytes(ring) < most)
        want(ring, bytes, SIZE_MAX);
}

void gf_ring_want_more(struct gf_ring *ring)
{
    const unsigned calls = __atomic_load_n(&ring->context->running, __ATOMIC_RELAXED);
    const uint64_t now = gf_ring_bytes(ring), limit = gf_ring_limit(ring);
    const uint64_t end = now < GF_TUNE_RING_WINDOW ? gf_min(limit, (uint64_t)GF_TUNE_RING_WINDOW) : limit;

    if (now < end && now < gf_max(GF_TUNE_RING_WINDOW, calls * GF_TUNE_SHARE_LEAST))
        want(ring, gf_min(now / 2, end - now), end - now);
}

/* Ends. */

bool gf_ring_is_due(void)
{
    const uint64_t due = __atomic_load_n(&due_ns, __ATOMIC_RELAXED);
    return gf_unlikely(due) && gf_now_ns() > due;
}

/* All of it, if nothing of it was used for long: nobody gets a block of it any more. */
static struct gf_segment *take_stale(struct gf_ring *ring, unsigned i)
{
    unsigned first;
    pthread_mutex_lock(&ring->lock);
    struct gf_segment *segment = ring->segments[i];
    if (segment && (segment->taken || gf_now_ns() - segment->used_ns <= GF_TUNE_RING_IDLE_NS ||
                    !gf_segment_take(segment, segment->units, 0, &first)))
        segment = NULL;
    pthread_mutex_unlock(&ring->lock);
    return segment;
}

/* Where it stays registered it stays in use. */
static bool unregister(struct gf_ring *ring, unsigned i)
{
    struct gf_segment *segment = ring->segments[i];
    const bool gone = gf_setup.cuda->cuMemHostUnregister(segment->at) == CUDA_SUCCESS;
    pthread_mutex_lock(&ring->lock);
    if (gone)
        ring->segments[i] = NULL;
    else
        gf_segment_give(segment, 0, segment->units);
    pthread_mutex_unlock(&ring->lock);
    return gone;
}

void gf_ring_trim(struct gf_context *context)
{
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE);

    __atomic_store_n(&due_ns, gf_now_ns() + GF_TUNE_RING_IDLE_NS, __ATOMIC_RELAXED);
    if (!ring || !gf_ring_bytes(ring))
        return;
    gf_block_collect(ring);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++) {
        struct gf_segment *segment = take_stale(ring, i);
        if (!segment || !unregister(ring, i))
            continue;
        munmap(segment->at, segment->bytes);
        gf_stats_ring_shrunk(segment->bytes, false);
        tell_size(ring, "has shrunk",
                  __atomic_sub_fetch(&ring->bytes, segment->bytes, __ATOMIC_RELAXED));
        free(segment);
    }
    if (!gf_ring_bytes(ring)) /* nobody copies any more: what waits to join it goes, too */
        gf_growth_cancel(&ring->growth, context);
}

void gf_ring_drop(struct gf_context *context)
{
    struct gf_ring *ring = __atomic_exchange_n(&context->ring, NULL, __ATOMIC_ACQ_REL);
    if (!ring)
        return;
    gf_growth_cancel(&ring->growth, context);
    gf_stats_ring_shrunk(gf_ring_bytes(ring), true);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i]) {
            munmap(ring->segments[i]->at, ring->segments[i]->bytes);
            free(ring->segments[i]);
        }
    pthread_mutex_destroy(&ring->lock);
    free(ring->memory);
}
