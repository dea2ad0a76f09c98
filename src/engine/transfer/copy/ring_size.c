/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/ring_size.h"

#include "base/clock.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/huge_pool.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/headroom.h"

#include <stdlib.h>

bool gf_ring_is_patient(struct gf_ring *ring, size_t bytes)
{
    unsigned left = gf_load_relaxed(&ring->impatient);

    if (bytes <= GF_TUNE_ASYNC_NOWAIT)
        return false;
    while (left && !gf_cas_weak_relaxed(&ring->impatient, &left, left - 1))
        continue;
    return !left;
}

static bool sleep_until(uint64_t end_ns)
{
    static const struct timespec moment = {.tv_nsec = GF_TUNE_RING_MOMENT_NS};

    if (gf_now_ns() >= end_ns)
        return false;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    return true;
}

bool gf_ring_await_others(size_t bytes, uint64_t since_ns)
{
    return sleep_until(since_ns + bytes / GF_MIB(1) * GF_TUNE_RING_PATIENCE_NS);
}

/*
 * The same for a copy that waits for the first segment of its ring, which takes a few milliseconds
 * to prepare. `has_begun`: the segment is being prepared.
 */
static bool gf_ring_await_first(size_t bytes, uint64_t since_ns, bool has_begun)
{
    const uint64_t patience =
        gf_min(bytes / GF_MIB(1) * GF_TUNE_RING_FIRST_PATIENCE_NS, GF_TUNE_RING_FIRST_MOST_NS);
    return sleep_until(since_ns + (has_begun ? patience : patience / 4));
}

void gf_ring_waited(struct gf_ring *ring, bool found)
{
    if (!found)
        gf_store_relaxed(&ring->impatient, GF_TUNE_RING_IMPATIENT);
}

#define WISH_UNIT GF_TUNE_RING_FIRST_LEAST
#define WISH_UNFINISHED UINT64_MAX /* the value of ring->wish while a thread writes ring->policy */

enum {
    growth_none,
    growth_starting,  /* the thread that set this state owns the growth */
    growth_touching,  /* helper threads work on the job */
    growth_finishing, /* the thread that set this state owns the growth */
};

static bool change_growth(struct gf_ring_growth *growth, unsigned from, unsigned to)
{
    return gf_cas_acq_rel(&growth->state, &from, to);
}

static void set_growth(struct gf_ring_growth *growth, unsigned to)
{
    gf_store_release(&growth->state, to);
}

static void end_growth(struct gf_ring *ring)
{
    gf_store_relaxed(&ring->growing, 0);
    set_growth(&ring->growth, growth_none);
}

bool gf_ring_growth_is_on(const struct gf_ring *ring)
{
    return gf_load_relaxed(&ring->growth.state) != growth_none;
}

/* Mapping and touching. */

/*
 * Touches the pages of a piece. Helper threads do this, so that first touch places the pages on
 * their node if the kernel refuses memory policies.
 */
static bool touch_piece(struct gf_pieces *job, uint64_t piece)
{
    struct gf_ring_growth *growth =
        (struct gf_ring_growth *)((char *)job - offsetof(struct gf_ring_growth, job));
    if (madvise(growth->at + piece * GF_HUGE_PAGE, GF_HUGE_PAGE, MADV_POPULATE_WRITE) == 0)
        return true;
    gf_store_relaxed(&growth->error, errno);
    return false;
}

/*
 * Maps growth->bytes bytes. False: *ret_fault describes the failed call. Without MADV_DONTFORK, the
 * process would have to copy each private page to which it writes after a fork. Core dumps do not
 * contain staged bytes, as they do not contain the driver's own staging memory.
 */
static bool map_segment(struct gf_ring_growth *growth, const struct gf_range_policy *policy,
                        struct gf_fault *ret_fault)
{
    growth->at = gf_huge_pool_map(growth->bytes, policy);
    growth->reserved = growth->at;
    if (!growth->at && (growth->at = gf_map_at_huge_page(growth->bytes, PROT_READ | PROT_WRITE, 0)))
        madvise(growth->at, growth->bytes, MADV_HUGEPAGE);
    if (!growth->at) {
        *ret_fault = (struct gf_fault){.call = "mmap", .error = errno};
        return false;
    }
    madvise(growth->at, growth->bytes, MADV_DONTDUMP);
    if (madvise(growth->at, growth->bytes, MADV_DONTFORK) != 0) {
        *ret_fault = (struct gf_fault){.call = "madvise(MADV_DONTFORK)", .error = errno};
        munmap(growth->at, growth->bytes);
        return false;
    }
    if (!growth->reserved)
        gf_range_policy_apply(policy, growth->at, growth->bytes);
    return true;
}

/*
 * Maps a segment and lets helpers touch it. Does nothing if the ring is already growing. False: the
 * kernel refused the memory.
 */
static bool start_growth(struct gf_ring *ring, size_t bytes, struct gf_fault *ret_fault)
{
    struct gf_ring_growth *growth = &ring->growth;
    struct gf_pool *pool = ring->context->pool;

    if (!change_growth(growth, growth_none, growth_starting))
        return true;
    growth->bytes = gf_round_up(bytes, GF_HUGE_PAGE);
    growth->passed = 0;
    gf_store_relaxed(&growth->error, 0);
    gf_store_relaxed(&ring->growing, growth->bytes);
    if (!map_segment(growth, &ring->policy, ret_fault)) {
        end_growth(ring);
        return false;
    }
    growth->job = (struct gf_pieces){.work = touch_piece, .low_priority = true};
    gf_pool_open(pool, &growth->job, growth->bytes / GF_HUGE_PAGE);
    if (gf_pool_threads(pool) == 1) /* this thread touches the pages, because there is no helper */
        while (gf_pieces_help(&growth->job))
            ;
    set_growth(growth, growth_touching);
    return true;
}

void gf_ring_growth_cancel(struct gf_ring *ring)
{
    struct gf_ring_growth *growth = &ring->growth;
    if (!change_growth(growth, growth_touching, growth_finishing))
        return;
    gf_pool_close(ring->context->pool, &growth->job);
    munmap(growth->at, growth->bytes);
    end_growth(ring);
}

/* Requests. */

/*
 * By how many bytes the ring may grow: at most up to its limit, and at most by a share of the
 * headroom of the control group and the host.
 */
static uint64_t ring_headroom(struct gf_ring *ring)
{
    struct gf_headroom left;
    const uint64_t rest = gf_ring_rest(ring);
    if (!rest)
        return 0;
    gf_range_policy_headroom(&ring->policy, &left);
    return gf_min(rest, left.bytes / GF_TUNE_RING_SHARE);
}

static bool has_free_entry(struct gf_ring *ring)
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
    const uint64_t at = gf_load_relaxed(&ring->refused_ns);
    return at && gf_now_ns() - at < GF_TUNE_RING_RETRY_NS;
}

/*
 * Lets the ring keep its current size after a failed call. If the ring has no memory, turns it off.
 */
static void stop_growing(struct gf_ring *ring, const struct gf_fault *fault)
{
    const uint64_t bytes = gf_ring_bytes(ring);
    char why[96];

    gf_store_relaxed(&ring->limit, bytes);
    if (!bytes) {
        gf_ring_fail(ring, fault);
        return;
    }
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_notify(gf_transfer_ring, gf_fault_level(fault),
                       "GPU %d: %s; the staging ring stays at %lu MiB", ring->context->device, why,
                       bytes >> 20);
}

/*
 * Requests a growth of at least `least` bytes, if possible of `bytes` bytes. Reading the headroom
 * opens files, and mapping takes time, so the library's own thread does both if it runs. The memory
 * policy is read here, because no other thread can read the calling thread's policy.
 */
static void request_growth(struct gf_ring *ring, size_t least, size_t bytes, enum gf_when when)
{
    const uint64_t wish = least / WISH_UNIT << 32 | bytes / WISH_UNIT;
    uint64_t none = 0;

    if (gf_ring_growth_is_on(ring) || was_refused(ring) ||
        !gf_cas_acq_rel(&ring->wish, &none, WISH_UNFINISHED))
        return;
    gf_range_policy_choose(ring->context->node, &ring->policy);
    gf_store_release(&ring->wish, wish);
    if (!gf_prepare_request(when))
        gf_ring_prepare(ring);
}

static void grow_ring(struct gf_ring *ring, size_t least, size_t bytes)
{
    struct gf_fault fault;

    bytes = gf_min(bytes, ring_headroom(ring)) & ~(WISH_UNIT - 1);
    if (bytes < least || !has_free_entry(ring) || gf_pool_has_failed(ring->context->pool))
        gf_store_relaxed(&ring->refused_ns, gf_now_ns());
    else if (!start_growth(ring, bytes, &fault))
        stop_growing(ring, &fault);
}

void gf_ring_prepare(struct gf_ring *ring)
{
    const uint64_t wish = gf_load_acquire(&ring->wish);

    if (!wish || wish == WISH_UNFINISHED)
        return;
    if (!gf_ring_growth_is_on(ring))
        grow_ring(ring, (size_t)(wish >> 32) * WISH_UNIT, (size_t)(uint32_t)wish * WISH_UNIT);
    gf_store_release(&ring->wish, 0);
}

void gf_rings_prepare(void)
{
    GF_EACH_CONTEXT(context) {
        struct gf_ring *ring = gf_load_acquire(&context->ring);
        if (ring)
            gf_ring_prepare(ring);
    }
}

/*
 * Requests a growth, unless it would exceed the ring's limit. Such a request would be refused, and
 * a refusal also delays later requests that the limit allows.
 */
static void want_bytes(struct gf_ring *ring, size_t bytes, size_t most)
{
    const size_t least = (bytes + WISH_UNIT - 1) & ~(WISH_UNIT - 1);
    const uint64_t now = gf_ring_bytes(ring);
    if (least <= gf_ring_rest(ring))
        request_growth(ring, least, gf_min(gf_max(2 * least, (size_t)now), gf_max(least, most)),
                       gf_when_now);
}

void gf_ring_want_contiguous(struct gf_ring *ring, size_t bytes)
{
    const uint64_t calls = gf_max(gf_context_calls(ring->context), 1u);
    const uint64_t most = gf_max((uint64_t)GF_TUNE_RING_WINDOW, calls * GF_TUNE_RING_AHEAD * bytes);
    if (gf_ring_bytes(ring) < most)
        want_bytes(ring, bytes, SIZE_MAX);
}

void gf_ring_want_more(struct gf_ring *ring)
{
    const unsigned calls = gf_context_calls(ring->context);
    const uint64_t now = gf_ring_bytes(ring), limit = now + gf_ring_rest(ring);
    const uint64_t end =
        now < GF_TUNE_RING_WINDOW ? gf_min(limit, (uint64_t)GF_TUNE_RING_WINDOW) : limit;

    if (now < end && now < gf_max(GF_TUNE_RING_WINDOW, calls * GF_TUNE_SHARE_LEAST))
        want_bytes(ring, gf_min(now / 2, end - now), end - now);
}

/* when to search for unused segments next; 0 before the first segment */
static _Atomic uint64_t look_ns;
static _Atomic uint64_t short_ns; /* the time when memory was last short; 0: never */

bool gf_ring_trim_is_due(void)
{
    const uint64_t due = gf_load_relaxed(&look_ns);
    return gf_unlikely(due) && gf_now_ns() > due;
}

/* Lets gf_ring_trim_is_due return true from this time on, or from an earlier one that was set. */
static void look_at(uint64_t ns)
{
    uint64_t due = gf_load_relaxed(&look_ns);
    while ((!due || due > ns) && !gf_cas_weak_relaxed(&look_ns, &due, ns))
        continue;
}

void gf_ring_trim_soon(void)
{
    const uint64_t now = gf_now_ns();
    gf_store_relaxed(&short_ns, now);
    if (gf_load_relaxed(&look_ns))
        look_at(now);
}

/* Registering. */

/*
 * Registers the segment that was touched. On failure, *ret_fault describes the failed call.
 * ret_fault->call is NULL if only the reserved huge pages were refused; the next segment then gets
 * ordinary pages.
 */
static bool register_growth(struct gf_ring *ring, struct gf_fault *ret_fault)
{
    struct gf_ring_growth *growth = &ring->growth;
    const bool touched = gf_pool_close(ring->context->pool, &growth->job) == GF_PIECE_NONE;
    const int error = touched ? 0 : gf_load_relaxed(&growth->error);

    *ret_fault = (struct gf_fault){0};
    if (growth->reserved && !gf_huge_pool_accept(growth->at, growth->bytes, &ring->policy, error))
        return false;
    if (!touched) {
        *ret_fault = (struct gf_fault){.call = "madvise(MADV_POPULATE_WRITE)", .error = error};
        return false;
    }
    if (!gf_ring_equip(ring, growth->bytes, ret_fault))
        return false;
    *ret_fault = (struct gf_fault){.call = "cuMemHostRegister"};
    ret_fault->result = gf_setup.cuda->cuMemHostRegister_v2(growth->at, growth->bytes, 0);
    return ret_fault->result == CUDA_SUCCESS;
}

/*
 * Whether the copy should register the segment now. A copy that is too small to justify the cost
 * leaves the registration to a larger copy, and a copy beside calls of other threads, for which the
 * driver may wait (gf_ring_equip), to a later one. At most GF_TUNE_RING_PASSED copies do so. Called
 * by the thread that owns the growth.
 */
static bool may_register(struct gf_ring_growth *growth, size_t most)
{
    return gf_pieces_is_finished(&growth->job) &&
           ((growth->bytes <= most && !gf_hold_others_submit()) ||
            growth->passed++ >= GF_TUNE_RING_PASSED);
}

static void finish_growth(struct gf_ring *ring, size_t copy_bytes)
{
    struct gf_ring_growth *growth = &ring->growth;
    struct gf_fault fault;
    /*
     * The copy registers the first segment if registering takes only a part of the time that
     * staging saves for this copy. Later segments may be about twice as large as the copy.
     */
    const size_t most =
        gf_ring_bytes(ring) ? 2 * (copy_bytes + GF_TUNE_RING_FIRST_LEAST) : copy_bytes / 2;

    if (gf_pool_is_interrupted() || !change_growth(growth, growth_touching, growth_finishing))
        return;
    if (!may_register(growth, most)) {
        set_growth(growth, growth_touching);
        return;
    }
    char *const at = growth->at;
    const size_t bytes = growth->bytes;
    const bool registered = register_growth(ring, &fault);
    if (registered) {
        gf_ring_add_segment(ring, at, bytes);
        gf_store_relaxed(&ring->trim_ns, gf_now_ns() + GF_TUNE_RING_IDLE_NS);
        look_at(gf_load_relaxed(&ring->trim_ns));
    } else {
        munmap(at, bytes);
    }
    end_growth(ring);
    if (!registered && fault.call)
        stop_growing(ring, &fault);
}

/*
 * Returns the size of a ring's first segment: the largest power of two that is at most `bytes`, but
 * within the bounds.
 */
static size_t first_size(size_t bytes)
{
    size_t ret = GF_TUNE_RING_FIRST_LEAST;
    while (ret * 2 <= bytes && ret < GF_TUNE_RING_FIRST_MOST)
        ret *= 2;
    return ret;
}

/* Requests the first segment, or registers the segment that was touched. */
static void advance_growth(struct gf_ring *ring, size_t bytes)
{
    if (gf_ring_growth_is_on(ring))
        finish_growth(ring, bytes);
    else if (!gf_ring_bytes(ring))
        request_growth(ring, GF_TUNE_RING_FIRST_LEAST, first_size(bytes / 2), gf_when_for(bytes));
}

/*
 * Whether a segment was requested or is being added. False also if the kernel refused the memory,
 * or the helpers that would touch it.
 */
static bool will_grow(struct gf_ring *ring)
{
    return !gf_pool_has_failed(ring->context->pool) &&
           (gf_load_acquire(&ring->wish) || gf_ring_growth_is_on(ring));
}

/*
 * Waits for the first segment. A large copy that is left to the driver takes many times as long as
 * preparing the ring, and during this time further copies would find no ring. After a wait in vain
 * no copy waits again, because the library's thread may have ended.
 */
static void await_first(struct gf_ring *ring, size_t bytes)
{
    const uint64_t since = gf_now_ns();

    if (gf_load_relaxed(&ring->waited_in_vain))
        return;
    while (!gf_ring_bytes(ring) && will_grow(ring) &&
           gf_ring_await_first(bytes, since, gf_ring_growth_is_on(ring))) {
        gf_prepare_deferred(); /* a smaller copy may defer its request only now */
        advance_growth(ring, bytes);
    }
    if (!gf_ring_bytes(ring))
        gf_store_relaxed(&ring->waited_in_vain, true);
}

bool gf_ring_ready(struct gf_ring *ring, size_t bytes)
{
    advance_growth(ring, bytes);
    if (!gf_ring_bytes(ring) && gf_when_for(bytes) == gf_when_now)
        await_first(ring, bytes);
    return gf_ring_bytes(ring) != 0;
}

/* Whether memory has become short since the ring was last searched for unused segments. */
static bool is_short(const struct gf_ring *ring)
{
    return gf_load_relaxed(&short_ns) > gf_load_relaxed(&ring->looked_ns);
}

/* Whether no unit is used, or only abandoned ones are. The lock is held. */
static bool is_unused(const struct gf_ring_segment *segment)
{
    return !segment->claimed && segment->used == segment->abandoned;
}

/*
 * If segment i was unused for longer than `idle_ns`, returns it, and allocates all its units, so
 * that no copy gets a slot in it. Else returns NULL.
 */
static struct gf_ring_segment *claim_stale(struct gf_ring *ring, unsigned i, uint64_t idle_ns)
{
    pthread_mutex_lock(&ring->lock);
    struct gf_ring_segment *segment = ring->segments[i];
    if (segment && (!is_unused(segment) || gf_now_ns() - segment->used_ns <= idle_ns))
        segment = NULL;
    if (segment) {
        segment->claimed = true;
        segment->used = segment->units;
    }
    pthread_mutex_unlock(&ring->lock);
    return segment;
}

/* Unregisters a segment. If the driver refuses, the segment stays in use. */
static bool unregister_segment(struct gf_ring *ring, unsigned i)
{
    struct gf_ring_segment *segment = ring->segments[i];
    const bool gone = gf_setup.cuda->cuMemHostUnregister(segment->at) == CUDA_SUCCESS;
    pthread_mutex_lock(&ring->lock);
    if (gone) {
        ring->segments[i] = NULL;
    } else {
        segment->claimed = false;
        segment->used = segment->abandoned;
        segment->used_ns = gf_now_ns();
    }
    pthread_mutex_unlock(&ring->lock);
    return gone;
}

/* Returns the earliest time when a segment that is unused now is due for removal. */
static uint64_t next_trim_ns(struct gf_ring *ring)
{
    uint64_t last = gf_now_ns();
    pthread_mutex_lock(&ring->lock);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++)
        if (ring->segments[i] && is_unused(ring->segments[i]))
            last = gf_min(last, ring->segments[i]->used_ns);
    pthread_mutex_unlock(&ring->lock);
    return last + GF_TUNE_RING_IDLE_NS;
}

/*
 * Beside calls of other threads, a later call unregisters the segments: the driver's calls that
 * unregister wait as those that register (gf_ring_equip). False: segments may be left.
 */
static bool trim_segments(struct gf_ring *ring, uint64_t idle_ns)
{
    gf_slot_reclaim_all(ring);
    for (unsigned i = 0; i < GF_RING_SEGMENTS; i++) {
        if (gf_hold_others_submit())
            return false;
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
    return true;
}

static void trim_ring(struct gf_ring *ring)
{
    const bool is_soon = is_short(ring);
    if (!is_soon && gf_now_ns() <= gf_load_relaxed(&ring->trim_ns))
        return;
    const uint64_t now = gf_now_ns();
    if (!trim_segments(ring, is_soon ? GF_TUNE_RING_SHORT_NS : GF_TUNE_RING_IDLE_NS))
        return;
    gf_store_relaxed(&ring->looked_ns, now);
    gf_store_relaxed(&ring->trim_ns, next_trim_ns(ring));
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
    GF_EACH_CONTEXT(other) {
        ring = gf_load_acquire(&other->ring);
        if (ring && gf_ring_bytes(ring))
            next = gf_min(next, gf_load_relaxed(&ring->trim_ns));
    }
    gf_store_relaxed(&look_ns, gf_max(next, gf_now_ns() + GF_TUNE_RING_LOOK_NS));
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
