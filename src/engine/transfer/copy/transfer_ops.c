/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a copy from the hook to the DMA: admission.c decides whether the copy is staged,
 * staged_copy.c stages it, and this file counts and times the outcome. Also serves the program's
 * allocations of pinned memory.
 */
#include "engine/transfer/copy/transfer_ops.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/context.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/rate.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/copy/staged_copy.h"
#include "engine/transfer/files/imports.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/files/replaced_calls.h"
#include "engine/transfer/files/unmap.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/tuning.h"

/*
 * With GPUFEED_DEBUG=copy, a line is written for the 1st, 2nd, 4th, 8th, ... copy of each direction,
 * kind and outcome, so that a training loop does not flood standard error.
 */

/*
 * The number of copies so far, by direction, kind of call and outcome. gf_bypass_none: the copy was
 * staged.
 */
static _Atomic unsigned seen_reasons[gf_direction_count][2][gf_bypass_count + 1];

/*
 * Counts a copy, and returns its number among the copies of the same direction, kind and outcome.
 * 0: no line is written for this copy.
 */
static unsigned number_of(struct gf_copy_kind kind, enum gf_bypass outcome)
{
    if (!gf_log_wants_area(gf_log_area_copy))
        return 0;
    const unsigned number =
        1 + gf_add_relaxed(&seen_reasons[kind.direction][kind.async][outcome], 1);
    return number & (number - 1) ? 0 : number;
}

static const char *way_of(struct gf_copy_kind kind)
{
    static const char *const ways[gf_direction_count][2] = {
        [gf_direction_h2d] = {"synchronous, to the GPU", "asynchronous, to the GPU"},
        [gf_direction_d2h] = {"synchronous, from the GPU", "asynchronous, from the GPU"},
    };
    return ways[kind.direction][kind.async];
}

static void explain_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    const unsigned number = number_of(kind, gf_bypass_none);
    if (number)
        gf_log_explain(gf_log_area_copy, "%s, %lu bytes: staged in %lu us (copy %u of this kind)",
                       way_of(kind), bytes, ns / 1000, number);
}

static void explain_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes)
{
    const unsigned number = number_of(kind, reason);
    if (number)
        gf_log_explain(gf_log_area_copy,
                       "%s, %lu bytes: not staged, reason %s: %s (copy %u of this kind)",
                       way_of(kind), bytes, gf_bypass_name(reason), gf_bypass_text(reason), number);
}

static void count_bypass(const struct gf_admission *admission, enum gf_bypass reason)
{
    gf_copy_stats_bypassed(admission->kind, reason, admission->call->bytes);
    explain_bypassed(admission->kind, reason, admission->call->bytes);
}

/*
 * Whether the stream is idle. Called before the driver makes a copy whose duration is wanted. If
 * the driver's call would wait for the stream, waits for the stream first. If another thread destroys
 * the stream meanwhile, sets ret->rest.
 */
static bool is_idle_now(const struct gf_admission *admission, struct gf_stage_result *ret)
{
    const struct gf_copy_call *call = admission->call;
    const struct gf_stage_request request = {.call = call,
                                             .context = admission->context,
                                             .ring = gf_ring_of(admission->context),
                                             .captures = admission->captures};
    const bool waits = !call->async || admission->kind.direction == gf_direction_d2h;
    bool idle = false;

    if (!request.ring || !gf_ring_is_on(request.ring) || (waits && !gf_hold_is_possible()))
        return false;
    if (gf_pipeline_await_stream(&request, waits ? 0 : GF_TUNE_IDLE_NS, &idle, ret) !=
        gf_bypass_none)
        return false;
    if (waits && !gf_hold_uses_stream(call->stream))
        ret->rest = gf_ring_stream(request.ring);
    return waits || idle;
}

/*
 * Whether a copy with this outcome accesses pageable memory within the call. A copy with another
 * outcome accesses other memory, may be refused by the driver, or runs later.
 */
static bool reads_now(enum gf_bypass reason)
{
    static const bool others[gf_bypass_count + 1] = {
        [gf_bypass_early] = true,   [gf_bypass_pinned] = true,        [gf_bypass_ends] = true,
        [gf_bypass_batch] = true,   [gf_bypass_capture] = true,       [gf_bypass_stream] = true,
        [gf_bypass_context] = true, [gf_bypass_device_memory] = true, [gf_bypass_range] = true,
        [gf_bypass_caller] = true,  [gf_bypass_unreadable] = true,    [gf_bypass_failed] = true};

    return !others[reason];
}

/*
 * Called before the hold of a copy ends that the driver makes. False: another thread destroys the
 * stream as soon as the hold ends. Otherwise no thread destroys it until gf_hold_used_stream.
 */
static bool keeps_stream(const struct gf_copy_call *call, const struct gf_stage_result *staged)
{
    return !staged->hold.ticket || gf_hold_uses_stream(call->stream);
}

static enum gf_bypass stage_copy(struct gf_admission *admission, struct gf_stage_result *ret)
{
    const struct gf_copy_call *call = admission->call;
    enum gf_bypass reason = gf_admission_begin(admission);
    unsigned readahead = 0;

    if (admission->kind.direction == gf_direction_h2d && reads_now(reason))
        readahead = gf_readahead_begin((const void *)(uintptr_t)call->src, call->bytes);
    if (reason == gf_bypass_none) {
        const struct gf_stage_request request = {.call = call,
                                                 .context = admission->context,
                                                 .ring = admission->ring,
                                                 .captures = admission->captures,
                                                 .readahead = readahead,
                                                 .hold = &ret->hold};
        reason = admission->kind.direction == gf_direction_h2d ? gf_h2d_stage(&request, ret)
                                                               : gf_d2h_stage(&request, ret);
        if (reason == gf_bypass_full && !gf_ring_is_on(admission->ring))
            reason = gf_bypass_failed;
        if (reason != gf_bypass_none && !keeps_stream(call, ret)) {
            ret->rest = gf_ring_stream(admission->ring);
            reason = gf_bypass_none;
        }
    } else if (reason == gf_bypass_slower && admission->wants_duration) {
        ret->stream_was_idle = is_idle_now(admission, ret);
        reason = ret->rest ? gf_bypass_none : reason;
    }
    if (reason == gf_bypass_none || !reads_now(reason)) {
        gf_readahead_end(readahead);
        readahead = 0;
    }
    ret->readahead = readahead;
    gf_admission_end(admission);
    return reason;
}

/*
 * Waits for the stream. The program's own copy may run beside another thread's capture, but in the
 * thread's usual capture mode this wait would fail, and would invalidate that capture.
 */
static CUresult await(CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_relaxed = gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    const CUresult result = gf_setup.cuda->cuStreamSynchronize(stream);
    if (is_relaxed)
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult copy_rest_on(CUstream stream, const struct gf_copy_call *rest,
                             enum gf_direction direction)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    return direction == gf_direction_h2d
               ? cuda->cuMemcpyHtoDAsync_v2(rest->dst, (const void *)(uintptr_t)rest->src,
                                            rest->bytes, stream)
               : cuda->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)rest->dst, rest->src, rest->bytes,
                                            stream);
}

static CUresult copy_rest_synchronously(const struct gf_copy_call *rest,
                                        enum gf_direction direction)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    const bool per_thread = rest->stream == CU_STREAM_PER_THREAD;

    if (direction == gf_direction_d2h) {
        void *to = (void *)(uintptr_t)rest->dst;
        return per_thread ? cuda->cuMemcpyDtoH_v2_ptds(to, rest->src, rest->bytes)
                          : cuda->cuMemcpyDtoH_v2(to, rest->src, rest->bytes);
    }
    const void *from = (const void *)(uintptr_t)rest->src;
    const CUresult result = per_thread ? cuda->cuMemcpyHtoD_v2_ptds(rest->dst, from, rest->bytes)
                                       : cuda->cuMemcpyHtoD_v2(rest->dst, from, rest->bytes);
    /*
     * If the rest is small, the driver's call may return before all bytes have arrived. So this
     * function waits for the stream.
     */
    return result ? result : await(rest->stream);
}

/*
 * Lets the driver copy the bytes that were not staged, because events fail. If the DMAs have moved to
 * the ring's stream, the driver uses that stream, and the call waits for it.
 */
static CUresult copy_rest(const struct gf_copy_call *call, enum gf_direction direction,
                          const struct gf_stage_result *staged)
{
    struct gf_copy_call rest = *call;

    rest.dst += staged->done;
    rest.src += staged->done;
    rest.bytes -= staged->done;
    if (!staged->rest)
        return call->async ? copy_rest_on(call->stream, &rest, direction)
                           : copy_rest_synchronously(&rest, direction);
    const CUresult result = copy_rest_on(staged->rest, &rest, direction);
    return result ? result : await(staged->rest);
}

/* Whether the driver's call for a declined copy moves bytes of pageable memory now. */
static bool is_pageable_now(enum gf_bypass reason)
{
    return reason != gf_bypass_early && reason != gf_bypass_pinned && reason != gf_bypass_ends &&
           reason != gf_bypass_capture;
}

static void decline(const struct gf_admission *admission, enum gf_bypass reason,
                    const struct gf_stage_result *staged, struct gf_copy_refusal *ret)
{
    const struct gf_copy_kind kind = admission->kind;

    count_bypass(admission, reason);
    *ret = (struct gf_copy_refusal){
        .direction = kind.direction,
        .reason = reason,
        .stream_was_idle = staged->stream_was_idle,
        .is_queued = staged->is_queued,
        .readahead = staged->readahead,
        .under_way = is_pageable_now(reason) ? gf_under_way_enter(kind.direction, gf_maker_driver,
                                                                  admission->call->bytes)
                                             : 0};
}

/* Counts a copy that the library made. outcome: not gf_bypass_none if the driver copied all bytes. */
static void count_made(const struct gf_admission *admission, enum gf_bypass outcome, uint64_t ns)
{
    const struct gf_copy_kind kind = admission->kind;
    const size_t bytes = admission->call->bytes;

    if (outcome == gf_bypass_none) {
        gf_copy_stats_staged(kind, bytes, ns);
        explain_staged(kind, bytes, ns);
    } else {
        count_bypass(admission, outcome);
        gf_copy_stats_driver_time(kind, outcome, bytes, ns);
    }
    gf_longest_copies_add(kind.direction, outcome, bytes, ns);
}

static bool gf_copy_ops_copy(const struct gf_copy_call *call, CUresult *ret_result,
                             struct gf_copy_refusal *ret_refusal, struct gf_copy_wait *ret_wait)
{
    struct gf_admission admission = {.call = call};
    struct gf_stage_result staged = {0};
    const uint64_t begun = gf_now_ns();
    const enum gf_bypass reason = stage_copy(&admission, &staged);
    const struct gf_copy_kind kind = admission.kind;
    /*
     * The rate check ignores a staged copy if the driver copied pageable memory at the same time,
     * because staging then waited for the driver's lock.
     */
    const bool met_driver = staged.met_driver || gf_under_way_by_driver();
    const uint64_t under_way =
        staged.under_way
            ? (staged.under_way + gf_under_way_leave(kind.direction, gf_maker_library)) / 2
            : 0;

    *ret_wait = (struct gf_copy_wait){
        .to_device = kind.direction == gf_direction_h2d,
        .pageable = reads_now(reason),
        .queued = reason == gf_bypass_none && staged.is_queued,
        .ns = staged.stream_wait_ns,
    };
    if (reason != gf_bypass_none) {
        gf_hold_end(&staged.hold);
        decline(&admission, reason, &staged, ret_refusal);
        return false;
    }
    *ret_result = staged.result;
    if (staged.alone)
        gf_copy_stats_rest(kind.direction, staged.alone);
    if (staged.result == CUDA_SUCCESS && staged.done < call->bytes)
        *ret_result = copy_rest(call, kind.direction, &staged);
    else if (staged.result == CUDA_SUCCESS && !met_driver && !staged.alone &&
             gf_admission_is_automatic())
        gf_rate_staged(kind, staged.is_queued, call->bytes, gf_now_ns() - staged.stream_done_ns,
                       under_way);
    gf_hold_end(&staged.hold);
    gf_hold_used_stream();
    count_made(&admission, staged.rest && !staged.done ? gf_bypass_shared : gf_bypass_none,
               gf_now_ns() - begun);
    return true;
}

static void gf_copy_ops_declined(const struct gf_copy_call *call,
                                 const struct gf_copy_refusal *refusal, uint64_t ns)
{
    const struct gf_copy_kind kind = {(enum gf_direction)refusal->direction, call->async};
    const enum gf_bypass reason = (enum gf_bypass)refusal->reason;

    gf_hold_used_stream();
    gf_readahead_end(refusal->readahead);
    gf_prepare_deferred();
    const uint64_t under_way =
        refusal->under_way
            ? (refusal->under_way + gf_under_way_leave(kind.direction, gf_maker_driver)) / 2
            : 0;
    /*
     * An early copy may use pinned memory, and a captured copy does not run now. So neither is
     * timed.
     */
    if (reason == gf_bypass_early || reason == gf_bypass_capture)
        return;
    gf_copy_stats_driver_time(kind, reason, call->bytes, ns);
    gf_longest_copies_add(kind.direction, reason, call->bytes, ns);
    if ((reason == gf_bypass_slower || reason == gf_bypass_full) &&
        (refusal->stream_was_idle || refusal->is_queued))
        gf_rate_driver(kind, !refusal->stream_was_idle, call->bytes, ns, under_way);
}

/* Whether the stream is held for all members of the batch to which the copy belongs. */
static bool holds_batch(const struct gf_admission *admission)
{
    const CUstream stream = admission->call->stream;
    const CUcontext context = admission->context->handle;

    return gf_hold_is_batch(stream, context) ||
           (!gf_hold_is_shared(stream, context) && gf_hold_begin_batch(stream, context));
}

static bool gf_copy_ops_fits(const struct gf_copy_call *call)
{
    struct gf_admission admission = {.call = call};
    enum gf_bypass reason = gf_admission_begin(&admission);

    if (reason == gf_bypass_none && !holds_batch(&admission))
        reason = gf_bypass_shared;
    gf_admission_end(&admission);
    if (reason != gf_bypass_none)
        count_bypass(&admission, reason);
    /*
     * The driver may make this copy as part of a batch, and gf_copy_ops_declined is not called for
     * a batch. So deferred requests are sent here.
     */
    gf_prepare_deferred();
    return reason == gf_bypass_none;
}

/* Pinned memory. */

static bool gf_host_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    gf_imports_request(bytes);
    return gf_pinned_alloc(pp, bytes, flags, ret_result);
}

/* The block is not counted in its mapping, so no mapping is judged by its count from now on. */
static void gf_host_alloc_inside(void)
{
    gf_pinned_cache_set_complete(false);
}

/*
 * Serves the program's frees of pinned memory, and finds which calls wait for the context's work.
 * After a call that waited, unused segments of the context's ring are removed.
 */

/*
 * Whether the driver waits for the context's work when it frees p. It does not wait if p is a small
 * block, which shares its mapping with other blocks, or if p belongs to another context.
 */
static bool host_free_waits(CUdeviceptr p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUcontext owner = NULL;
    size_t bytes = 0;
    void *into[] = {&owner, &bytes};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, p) ==
               CUDA_SUCCESS &&
           owner == context->handle && bytes > GF_PINNED_CACHE_MOST;
}

/*
 * Whether the driver waits for the context's work when it frees the device memory at p. It does not
 * wait for memory of a pool. A free of memory of another context waits only for that context.
 */
static bool device_free_waits(CUdeviceptr p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    CUcontext owner = NULL;
    CUmemoryPool pool = NULL;
    void *into[] = {&owner, &pool};
    return p &&
           gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, p) ==
               CUDA_SUCCESS &&
           owner == context->handle && !pool;
}

/*
 * Whether the free of p waits for the current context's work. If so, segments of the ring may be
 * removed after the free.
 */
static bool free_may_trim(CUdeviceptr p, bool (*waits)(CUdeviceptr, const struct gf_context *))
{
    struct gf_context *context = gf_ring_trim_is_due() ? gf_context_enter() : NULL;
    const bool may = context && waits(p, context);
    if (context)
        gf_context_leave(context);
    return may;
}

/*
 * Called after a successful call that waited. If a capture forbade waiting, that call would have
 * failed. Beside calls of other threads, a later call releases the memory, as in gf_ring_trim.
 */
static void trim_ring(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct gf_context *context = gf_hold_others_submit() ? NULL : gf_context_enter();
    if (!context)
        return;
    if (gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        gf_ring_trim(context);
        if (!gf_hold_others_submit())
            gf_pinned_trim_if_short(context);
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_context_leave(context);
}

/*
 * Leaves the context before the driver's free. The free may wait for the device, and a thread that
 * is inside a context delays the end of that context.
 */
static bool gf_host_free(void *p, CUresult *ret_result)
{
    gf_memcpy_unpinned(p);
    const bool trims = free_may_trim((uintptr_t)p, host_free_waits);
    const bool done = gf_pinned_free(p, ret_result);

    if (!trims)
        return done;
    if (!done)
        *ret_result = gf_setup.cuda->cuMemFreeHost(p);
    if (*ret_result == CUDA_SUCCESS)
        trim_ring();
    return true;
}

static bool gf_host_unregister(void *p, CUresult *ret_result)
{
    gf_memcpy_unpinned(p);
    return gf_pinned_unregister(p, ret_result);
}

static bool gf_device_free_waits(CUdeviceptr p)
{
    return free_may_trim(p, device_free_waits);
}

static void gf_host_waited(void)
{
    if (gf_ring_trim_is_due())
        trim_ring();
}

const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup)
{
    static struct gf_transfer_ops ops = {
        .copy = gf_copy_ops_copy,
        .copy_declined = gf_copy_ops_declined,
        .copy_fits = gf_copy_ops_fits,
        .batch_end = gf_hold_end_batch,
        .host_alloc = gf_host_alloc,
        .host_free = gf_host_free,
        .host_alloc_inside = gf_host_alloc_inside,
        .host_unregister = gf_host_unregister,
        .host_register = gf_pinned_register,
        .host_pinned = gf_memcpy_pinned,
        .host_flags = gf_pinned_flags,
        .host_mapping = gf_pinned_buffer_mapping,
        .device_free_waits = gf_device_free_waits,
        .waited = gf_host_waited,
        .unmap = gf_unmap,
        .unmapped = gf_unmapped,
        .await_hold = gf_hold_await,
        .capture_begins = gf_capture_begins,
        .capture_begun = gf_capture_begun,
        .context_leaving = gf_context_leaving,
        .context_left = gf_context_left,
    };
    static void (*const context_ends[])(struct gf_context *) = {gf_pinned_end, gf_ring_end,
                                                                gf_memcpy_end, NULL};
    const struct gf_options *options = setup->options;
    const bool stages = options->stage != gf_stage_off;
    const bool observes = options->mode == gf_mode_observe;

    gf_setup = *setup;
    gf_pinned_cache_set_complete(false);
    gf_vma_query_start();
    gf_context_on_end(context_ends);
    gf_admission_start(&ops);
    if (!stages || observes)
        ops.unmap = NULL;
    if (gf_admission_off())
        ops.await_hold = NULL;
    else
        gf_hold_start();
    return stages || (options->pin != gf_pin_off && !observes) ? &ops : NULL;
}

void gf_transfer_memory_is_short(void)
{
    gf_ring_trim_soon();
    gf_kept_limit_short();
}

void gf_transfer_joined(bool allocated)
{
    gf_pinned_cache_set_complete(!allocated);
    if (gf_setup.options && gf_setup.options->pin == gf_pin_auto && gf_setup.options->pin_cache)
        gf_kept_mapping_forks();
}

void gf_transfer_prepare(void)
{
    gf_prepare_pools();
    gf_readahead_prepare();
    gf_rings_prepare();
    gf_imports_prepare();
}

/* devices: bits of the devices whose limit was added. */
static void add_context(struct gf_transfer_state *state, struct gf_context *context,
                        uint64_t *devices)
{
    const uint64_t device = UINT64_C(1) << (unsigned)context->device % 64;
    struct gf_ring *ring = gf_load_acquire(&context->ring);
    if (!ring)
        return;
    gf_ring_held(ring, state->ring_held);
    state->rings++;
    state->ring_bytes += gf_ring_bytes(ring);
    if (!(*devices & device)) /* all rings of a GPU share the limit */
        state->ring_limit += gf_ring_limit(ring);
    *devices |= device;
    state->helpers = gf_max(state->helpers, gf_pool_helpers(context->pool));
}

void gf_transfer_state(struct gf_transfer_state *ret)
{
    uint64_t devices = 0;

    *ret =
        (struct gf_transfer_state){.off = gf_admission_off(),
                                   .ring_most = gf_copy_stats_ring_most(),
                                   .pinned_kept = gf_pinned_cache_kept() + gf_kept_mapping_bytes(),
                                   .unmap_pending = gf_unmap_pending()};
    ret->threads = gf_admission_threads(ret->least);
    gf_pinned_buffer_held(ret->pinned_held);
    GF_EACH_CONTEXT(context)
        add_context(ret, context, &devices);
}
