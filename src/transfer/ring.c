/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/ring.h"

#include "base/clock.h"
#include "host/headroom.h"
#include "transfer/plant.h"
#include "transfer/prepare.h"
#include "transfer/segment.h"
#include "transfer/setup.h"
#include "transfer/stats.h"
#include "transfer/tell.h"
#include "transfer/tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SEGMENTS 16
#define BLOCKS 512
#define WISH_UNIT GF_TUNE_RING_FIRST_LEAST

struct gf_segment {
    char *at;
    size_t bytes;
    unsigned units, taken;
    uint64_t *map; /* a bit for each unit that is taken */
    uint64_t used_ns; /* when a block of it was last given back */
};

enum { block_none, block_held, block_under_way, block_asked, block_lost };

struct gf_ring {
    struct gf_context *context;
    pthread_mutex_t lock; /* of segments and their maps */
    struct gf_segment *segments[SEGMENTS];
    struct gf_block blocks[BLOCKS];
    uint64_t wish; /* atomic: a growth that was asked for, 0 none: the least units << 32 | units */
    struct gf_growth growth;
    unsigned event_flags;
    uint64_t limit;      /* atomic */
    uint64_t bytes;      /* atomic, registered */
    uint64_t refused_ns; /* atomic: when it was last told to stay as it is; 0 never */
    unsigned off;        /* atomic */
};

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

struct gf_ring *gf_ring_of(struct gf_context *context)
{
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE), *none = NULL;
    const uint64_t wish = gf_setup.options->stage_ring;
    if (ring)
        return ring;
    ring = calloc(1, sizeof(*ring));
    if (!ring)
        return NULL;
    ring->context = context;
    pthread_mutex_init(&ring->lock, NULL);
    ring->event_flags = event_flags();
    ring->limit = wish == GF_SIZE_AUTO ? GF_TUNE_RING_LIMIT : wish;
    if (__atomic_compare_exchange_n(&context->ring, &none, ring, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return ring;
    free(ring);
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

void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error)
{
    if (__atomic_exchange_n(&ring->off, 1, __ATOMIC_RELAXED))
        return;
    gf_transfer_tell(gf_transfer_off, is_the_programs(error) ? GF_LOG_INFO : GF_LOG_WARN,
                     "GPU %d: copies are left to the driver from now on: %s failed (%d)",
                     ring->context->device, call, (int)error);
}

uint64_t gf_ring_bytes(const struct gf_ring *ring)
{
    return __atomic_load_n(&ring->bytes, __ATOMIC_RELAXED);
}

uint64_t gf_ring_limit(const struct gf_ring *ring)
{
    return __atomic_load_n(&ring->limit, __ATOMIC_RELAXED);
}

/* Growing. */

static void tell_size(const struct gf_ring *ring, const char *what, uint64_t bytes)
{
    gf_transfer_tell(gf_transfer_ring, GF_LOG_DEBUG, "GPU %d: the ring for copies %s to %llu MiB",
                     ring->context->device, what, (unsigned long long)(bytes >> 20));
}

static void add_segment(struct gf_ring *ring, char *at, size_t bytes)
{
    const unsigned units = (unsigned)(bytes / GF_RING_UNIT);
    struct gf_segment *segment = calloc(1, sizeof(*segment) + (units + 63) / 64 * sizeof(uint64_t));
    if (!segment)
        return; /* stays registered, and is of no use: memory is at its end anyway */
    *segment = (struct gf_segment){.at = at, .bytes = bytes, .units = units, .used_ns = gf_now_ns()};
    segment->map = (uint64_t *)(segment + 1);
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < SEGMENTS; i++)
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
    for (unsigned i = 0; i < SEGMENTS; i++)
        found |= !ring->segments[i];
    pthread_mutex_unlock(&ring->lock);
    return found;
}

static bool was_refused(struct gf_ring *ring)
{
    const uint64_t at = __atomic_load_n(&ring->refused_ns, __ATOMIC_RELAXED);
    return at && gf_now_ns() - at < GF_TUNE_RING_RETRY_NS;
}

/* Looking for room reads files, and mapping takes its time: neither is the copying call's. */
static void ask(struct gf_ring *ring, size_t least, size_t bytes)
{
    const uint64_t wish = least / WISH_UNIT << 32 | bytes / WISH_UNIT;
    uint64_t none = 0;

    if (!gf_growth_is_on(&ring->growth) && !was_refused(ring) &&
        __atomic_compare_exchange_n(&ring->wish, &none, wish, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        gf_prepare_ring(ring);
}

static void grow(struct gf_ring *ring, size_t least, size_t bytes)
{
    bytes = gf_min(bytes, room(ring)) & ~(GF_TUNE_RING_FIRST_LEAST - 1);
    if (bytes < least || !has_place(ring) ||
        !gf_growth_start(&ring->growth, ring->context, bytes))
        __atomic_store_n(&ring->refused_ns, gf_now_ns(), __ATOMIC_RELAXED);
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
    const char *call;
    CUresult error;
    char *at;
    size_t size;
    /* What it costs to register the first is a part of what the copy gains; later ones are earned. */
    const size_t most = gf_ring_bytes(ring) ? 2 * (bytes + GF_TUNE_RING_FIRST_LEAST) : bytes / 2;

    switch (gf_growth_finish(&ring->growth, ring->context, most, &at, &size, &call, &error)) {
    case gf_grown_not:
        break;
    case gf_grown_ready:
        add_segment(ring, at, size);
        break;
    case gf_grown_failed:
        if (!gf_ring_bytes(ring))
            gf_ring_turn_off(ring, call, error);
        else
            gf_transfer_tell(gf_transfer_ring, GF_LOG_WARN,
                             "GPU %d: the ring for copies stays at %llu MiB: %s failed (%d)",
                             ring->context->device,
                             (unsigned long long)(gf_ring_bytes(ring) >> 20), call, (int)error);
        __atomic_store_n(&ring->limit, gf_ring_bytes(ring), __ATOMIC_RELAXED);
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
        ask(ring, GF_TUNE_RING_FIRST_LEAST, first_size(bytes / 2));
    return gf_ring_bytes(ring) != 0;
}

void gf_ring_want(struct gf_ring *ring, size_t bytes)
{
    const size_t unit = GF_TUNE_RING_FIRST_LEAST;
    const size_t least = (bytes + unit - 1) & ~(unit - 1);
    ask(ring, least, gf_max(2 * least, (size_t)gf_ring_bytes(ring)));
}

/* Blocks. */

static bool is_free(const struct gf_segment *segment, unsigned unit)
{
    return !(segment->map[unit / 64] >> unit % 64 & 1);
}

static void mark_units(struct gf_segment *segment, unsigned first, unsigned units, bool taken)
{
    for (unsigned i = first; i < first + units; i++)
        if (taken)
            segment->map[i / 64] |= UINT64_C(1) << i % 64;
        else
            segment->map[i / 64] &= ~(UINT64_C(1) << i % 64);
    segment->taken += taken ? units : 0 - units;
}

static bool find_units(const struct gf_segment *segment, unsigned units, unsigned *ret)
{
    unsigned run = 0;
    if (units > segment->units - segment->taken)
        return false;
    for (unsigned i = 0; i < segment->units; i++) {
        run = is_free(segment, i) ? run + 1 : 0;
        if (run == units) {
            *ret = i + 1 - units;
            return true;
        }
    }
    return false;
}

static bool carve(struct gf_ring *ring, struct gf_block *block, size_t bytes)
{
    const unsigned units = (unsigned)((bytes + GF_RING_UNIT - 1) / GF_RING_UNIT);

    block->segment = NULL;
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < SEGMENTS && !block->segment; i++) {
        struct gf_segment *segment = ring->segments[i];
        if (!segment || !find_units(segment, units, &block->first))
            continue;
        mark_units(segment, block->first, units, true);
        block->segment = segment;
        block->units = units;
        block->at = segment->at + block->first * GF_RING_UNIT;
        block->bytes = bytes;
    }
    pthread_mutex_unlock(&ring->lock);
    return block->segment != NULL;
}

static void free_units(struct gf_ring *ring, struct gf_block *block)
{
    if (block->segment) {
        pthread_mutex_lock(&ring->lock);
        mark_units(block->segment, block->first, block->units, false);
        block->segment->used_ns = gf_now_ns();
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

/* Frees what has ended meanwhile, of all streams; asks, and never waits. */
static void collect(struct gf_ring *ring)
{
    for (unsigned i = 0; i < BLOCKS && gf_ring_is_on(ring); i++) {
        struct gf_block *block = &ring->blocks[i];
        if (!change(block, block_under_way, block_asked))
            continue;
        const CUresult result = gf_ring_query(block);
        if (result == CUDA_SUCCESS || GF_PLANTED(frees_busy_blocks)) {
            free_units(ring, block);
        } else if (result == CUDA_ERROR_NOT_READY) {
            gf_ring_let_go(block);
        } else {
            gf_ring_lose(block);
            gf_ring_turn_off(ring, "cuEventQuery", result);
        }
    }
}

static struct gf_block *take_descriptor(struct gf_ring *ring)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        if (change(&ring->blocks[i], block_none, block_held))
            return &ring->blocks[i];
    return NULL;
}

struct gf_block *gf_ring_take(struct gf_ring *ring, size_t bytes)
{
    struct gf_block *block = take_descriptor(ring);
    if (!block) {
        collect(ring);
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
    collect(ring);
    if (carve(ring, block, bytes))
        return block;
    free_units(ring, block);
    return NULL;
}

void gf_ring_give(struct gf_ring *ring, struct gf_block *block)
{
    free_units(ring, block);
}

void gf_ring_let_go(struct gf_block *block)
{
    __atomic_store_n(&block->state, block_under_way, __ATOMIC_RELEASE);
}

void gf_ring_lose(struct gf_block *block)
{
    __atomic_store_n(&block->state, block_lost, __ATOMIC_RELEASE);
}

CUresult gf_ring_mark(const struct gf_block *block, CUstream stream)
{
    return gf_setup.cuda->cuEventRecord(block->event, stream);
}

CUresult gf_ring_query(const struct gf_block *block)
{
    return gf_setup.cuda->cuEventQuery(block->event);
}

CUresult gf_ring_wait(const struct gf_block *block)
{
    CUresult result;
    GF_PLANT_HOLD(holds_a_lock);
    do
        result = gf_setup.cuda->cuEventSynchronize(block->event);
    while (GF_PLANTED(waits_through_errors) && result != CUDA_SUCCESS);
    GF_PLANT_DROP(holds_a_lock);
    return result;
}

/* Ends. */

bool gf_ring_is_due(void)
{
    uint64_t due = __atomic_load_n(&due_ns, __ATOMIC_RELAXED);
    if (gf_likely(!due))
        return false;
    const uint64_t now = gf_now_ns();
    return now > due && __atomic_compare_exchange_n(&due_ns, &due, now + GF_TUNE_RING_IDLE_NS, false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static bool is_stale(const struct gf_segment *segment, uint64_t now)
{
    return segment && !segment->taken && now - segment->used_ns > GF_TUNE_RING_IDLE_NS;
}

void gf_ring_trim(struct gf_context *context)
{
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE);
    const uint64_t now = gf_now_ns();

    if (!ring || !gf_ring_bytes(ring))
        return;
    collect(ring);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct gf_segment *segment = NULL;
        pthread_mutex_lock(&ring->lock);
        if (is_stale(ring->segments[i], now)) {
            segment = ring->segments[i];
            ring->segments[i] = NULL;
        }
        pthread_mutex_unlock(&ring->lock);
        if (!segment)
            continue;
        const uint64_t left =
            __atomic_sub_fetch(&ring->bytes, segment->bytes, __ATOMIC_RELAXED);
        /* Where it stays registered its pages stay too. */
        if (gf_setup.cuda->cuMemHostUnregister(segment->at) == CUDA_SUCCESS)
            munmap(segment->at, segment->bytes);
        gf_stats_ring_shrunk(segment->bytes, false);
        free(segment);
        tell_size(ring, "has shrunk", left);
    }
}

void gf_ring_drop(struct gf_context *context)
{
    struct gf_ring *ring = __atomic_exchange_n(&context->ring, NULL, __ATOMIC_ACQ_REL);
    if (!ring)
        return;
    gf_growth_cancel(&ring->growth, context);
    gf_stats_ring_shrunk(gf_ring_bytes(ring), true);
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (ring->segments[i]) {
            munmap(ring->segments[i]->at, ring->segments[i]->bytes);
            free(ring->segments[i]);
        }
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}
