/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/transfer.h"

#include "base/clock.h"
#include "transfer/classify.h"
#include "transfer/flow.h"
#include "transfer/pace.h"
#include "transfer/pinned.h"
#include "transfer/plant.h"
#include "transfer/prepare.h"
#include "transfer/trim.h"
#include "transfer/unmap.h"
#include "transfer/worth.h"

/* One call, from the hook to its end. */
struct visit {
    const struct gf_copy_call *call;
    enum gf_direction direction;
    bool looks; /* nothing shall be done yet */
    bool told;  /* the call says which way */
    bool few;   /* no pool known so far has the threads for it, and what is said of it then */
    enum gf_forward why_few;
    struct gf_context *context;
    uint64_t since_ns; /* when the stream had been waited for */
    struct gf_staged end;
};

static const char *off; /* why nothing is staged; NULL */

static bool forward(struct visit *v, enum gf_forward why)
{
    v->end = (struct gf_staged){.forward = true, .why = why};
    return false;
}

/* Without a context each question about a stream is an error, which tools would show as the program's. */
static bool check_current(struct visit *v)
{
    CUcontext current = NULL;
    return gf_setup.cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current
               ? true
               : forward(v, gf_forward_context);
}

/* Whether the stream is one that a copy can be staged on, from this thread, now. */
static bool check_capture(struct visit *v)
{
    CUstreamCaptureStatus status;
    if (GF_PLANTED(ignores_captures))
        return true;
    return gf_setup.cuda->cuStreamIsCapturing(v->call->stream, &status) == CUDA_SUCCESS &&
                   status == CU_STREAM_CAPTURE_STATUS_NONE
               ? true
               : forward(v, gf_forward_capture);
}

static bool check_stream(struct visit *v)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    const CUresult result = cuda->cuStreamGetCtx_v2
                                ? cuda->cuStreamGetCtx_v2(v->call->stream, &context, &green)
                                : cuda->cuStreamGetCtx(v->call->stream, &context);
    if (result != CUDA_SUCCESS || green || context != v->context->handle)
        return forward(v, gf_forward_stream);
    return true;
}

/* The program asked that copies be synchronous whatever they are called. */
static bool is_synchronous(void)
{
    unsigned flags = 0;
    return gf_setup.cuda->cuCtxGetFlags(&flags) != CUDA_SUCCESS || (flags & CU_CTX_SYNC_MEMOPS);
}

static bool check_context(struct visit *v)
{
    if (!v->context)
        return forward(v, gf_forward_context);
    if (v->context->shares_pages)
        return forward(v, gf_forward_shares_pages);
    return is_synchronous() ? forward(v, gf_forward_device_memory) : true;
}

static struct gf_copy_kind kind_of(const struct visit *v)
{
    return (struct gf_copy_kind){v->direction, v->call->async};
}

static bool check_few(struct visit *v)
{
    return v->few ? forward(v, v->why_few) : true;
}

/* The host's side. Where the call says the way, it is known before the driver is asked whether it is for few threads. */
static bool check_host(struct visit *v)
{
    enum gf_forward why;

    if (v->told)
        v->few = !gf_worth_asking(v->direction, v->call->bytes, &v->why_few);
    if (!gf_classify_host(v->call, v->few, &v->direction, &why))
        return forward(v, why);
    if (!v->told)
        v->few = !gf_worth_asking(v->direction, v->call->bytes, &v->why_few);
    return v->call->bytes >= gf_worth_least(v->direction) ? true : forward(v, gf_forward_small);
}

/*
 * On the thread's own stream a synchronous copy waits for that stream alone. Its transfer waits for the legacy one's
 * work, too, which may be waiting for this very thread: the driver's call is back before, with so many bytes.
 */
static bool returns_before(const struct visit *v)
{
    return v->call->stream == CU_STREAM_PER_THREAD && !v->call->async && v->direction == gf_direction_h2d &&
           v->call->bytes <= GF_TUNE_PUT_ASIDE;
}

static bool check_size(struct visit *v)
{
    const struct gf_context *context = v->context;
    const unsigned running = __atomic_load_n(&context->running, __ATOMIC_RELAXED);
    const unsigned threads = gf_pool_threads(context->pool);
    enum gf_forward why;

    if (!gf_worth_with(threads, v->direction, v->call->bytes, &why))
        return forward(v, why);
    if (returns_before(v))
        return forward(v, gf_forward_small);
    if (running > GF_TUNE_CALLS_PER_THREAD * threads)
        return forward(v, gf_forward_crowded);
    return !gf_worth_is_automatic() || gf_pace_allows(kind_of(v), v->call->bytes)
               ? true
               : forward(v, gf_forward_slower);
}

/*
 * What stands in a capture is no copy yet, and tells nothing of the driver's speed. A synchronous copy never does, and
 * many threads of few CPUs would wait for the driver's lock with each question.
 */
static bool check_call(struct visit *v)
{
    return v->call->async ? check_current(v) && check_capture(v) && check_few(v)
                          : check_few(v) && check_current(v) && check_capture(v);
}

/* With the thread's capture mode relaxed. */
static void stage(struct visit *v)
{
    enum gf_forward why;
    struct gf_staging s = {.call = v->call, .since_ns = &v->since_ns};

    v->context = gf_context_enter();
    if (!check_context(v) || !check_stream(v) || !check_size(v))
        return;
    if (!GF_PLANTED(checks_no_range) &&
        !gf_classify_ends(v->call, v->direction, v->context->device, &why)) {
        forward(v, why);
        return;
    }
    s.context = v->context;
    s.ring = off ? NULL : gf_ring_of(v->context);
    if (!s.ring || !gf_ring_is_on(s.ring) || gf_pool_is_refused(v->context->pool)) {
        forward(v, gf_forward_off);
        return;
    }
    const enum gf_when when = gf_when_for(v->call->bytes);
    gf_prepare_helpers(v->context->pool, when);
    const bool ready = gf_ring_ready(s.ring, v->call->bytes);
    if (when == gf_when_now)
        gf_prepare_behind(); /* what smaller ones have put off, up to this moment */
    if (!ready)
        forward(v, gf_forward_warming);
    else if (v->looks)
        ;
    else if (v->direction == gf_direction_h2d)
        gf_stage_h2d(&s, &v->end);
    else
        gf_stage_d2h(&s, &v->end);
}

/*
 * Nothing of ours is held here: a fault in the program's memory happens in the driver, on the
 * thread that asked for the copy, as it would have.
 */
static CUresult copy_rest(const struct gf_copy_call *call, enum gf_direction direction, size_t done)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    const bool own = call->stream == CU_STREAM_PER_THREAD;
    const CUdeviceptr dst = call->dst + done, src = call->src + done;
    const size_t bytes = call->bytes - done;

    gf_stats_rest(direction, bytes);
    if (direction == gf_direction_h2d) {
        const void *from = (const void *)(uintptr_t)src;
        if (call->async)
            return cuda->cuMemcpyHtoDAsync_v2(dst, from, bytes, call->stream);
        const CUresult result =
            own ? cuda->cuMemcpyHtoD_v2_ptds(dst, from, bytes) : cuda->cuMemcpyHtoD_v2(dst, from, bytes);
        /* With so few bytes it may be back before they, and those sent before them, have arrived. */
        return result ? result : cuda->cuStreamSynchronize(call->stream);
    }
    void *to = (void *)(uintptr_t)dst;
    return call->async ? cuda->cuMemcpyDtoHAsync_v2(to, src, bytes, call->stream)
           : own       ? cuda->cuMemcpyDtoH_v2_ptds(to, src, bytes)
                       : cuda->cuMemcpyDtoH_v2(to, src, bytes);
}

/* Asking and waiting for events is legal beside a capture of other threads in this mode only. */
static void stage_relaxed(struct visit *v)
{
    CUstreamCaptureMode mode =
        GF_PLANTED(stays_strict) ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_RELAXED;
    if (gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) {
        forward(v, gf_forward_failed);
        return;
    }
    stage(v);
    if (v->context)
        gf_context_leave(v->context);
    gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
}

/* Copies below GF_TUNE_EAGER that were met, up to GF_TUNE_EAGER_PATIENCE: of any memory, and of those that could be staged. */
static unsigned unasked, early; /* atomic */

static bool is_small(const struct visit *v)
{
    return v->call->bytes < GF_TUNE_EAGER && gf_worth_is_automatic();
}

static bool is_among_first(unsigned *seen)
{
    return __atomic_load_n(seen, __ATOMIC_RELAXED) < GF_TUNE_EAGER_PATIENCE &&
           __atomic_fetch_add(seen, 1, __ATOMIC_RELAXED) < GF_TUNE_EAGER_PATIENCE;
}

/* The first questions cost a first copy of a megabyte a third of its time, and it would be the driver's anyway. */
static bool is_unasked(const struct visit *v)
{
    return v->told && !off && is_small(v) && is_among_first(&unasked);
}

/* A program that copies little shall not pay for what it would hardly use. */
static bool is_early(const struct visit *v)
{
    if (is_small(v))
        return is_among_first(&early);
    __atomic_store_n(&unasked, GF_TUNE_EAGER_PATIENCE, __ATOMIC_RELAXED);
    __atomic_store_n(&early, GF_TUNE_EAGER_PATIENCE, __ATOMIC_RELAXED);
    return false;
}

/* False, and counted, if it is the driver's. */
static bool try(struct visit *v)
{
    v->told = v->call->way == gf_copy_h2d || v->call->way == gf_copy_d2h;
    v->direction = v->call->way == gf_copy_d2h ? gf_direction_d2h : gf_direction_h2d;
    if (is_unasked(v))
        forward(v, gf_forward_early);
    else if (!check_host(v) || !check_call(v))
        ; /* say themselves why */
    else if (is_early(v))
        forward(v, gf_forward_warming);
    else
        stage_relaxed(v);
    if (v->end.forward)
        gf_stats_forwarded(kind_of(v), v->end.why, v->call->bytes);
    return !v->end.forward;
}

static bool copy_fits(const struct gf_copy_call *call)
{
    struct visit v = {.call = call, .looks = true};
    const bool fits = try(&v);
    gf_prepare_behind(); /* if it does not, the driver's call for it may be for a batch, of which nobody tells */
    return fits;
}

static bool copy(const struct gf_copy_call *call, CUresult *ret_result)
{
    struct visit v = {.call = call};
    const uint64_t begun = gf_now_ns();

    if (!try(&v)) {
        *ret_result = (CUresult)(v.end.why * gf_direction_count + v.direction);
        return false;
    }
    *ret_result = v.end.result;
    if (v.end.result == CUDA_SUCCESS && v.end.done < call->bytes)
        *ret_result = copy_rest(call, v.direction, v.end.done);
    else if (v.end.result == CUDA_SUCCESS && gf_worth_is_automatic())
        gf_pace_staged(kind_of(&v), call->bytes, gf_now_ns() - v.since_ns);
    gf_stats_staged(kind_of(&v), call->bytes, gf_now_ns() - begun);
    return true;
}

/* The word is what copy has just found out: copies that the driver's call led to do not disturb. */
static void copy_declined(const struct gf_copy_call *call, CUresult word, uint64_t ns)
{
    const struct gf_copy_kind kind = {(unsigned)word % gf_direction_count, call->async};
    const enum gf_forward why = (unsigned)word / gf_direction_count;
    gf_prepare_behind();
    if (why == gf_forward_early || why == gf_forward_capture) /* pinned memory, perhaps, or no copy yet: that is no rate */
        return;
    gf_stats_timed(kind, why, call->bytes, ns);
    if (why == gf_forward_slower || why == gf_forward_warming || why == gf_forward_full)
        gf_pace_driver(kind, call->bytes, ns);
}

/* What all of it needs of the driver. */
static bool can_copy(const struct gf_cuda *c)
{
    return c->cuCtxGetCurrent && c->cuCtxGetFlags && c->cuStreamIsCapturing &&
           (c->cuStreamGetCtx_v2 || c->cuStreamGetCtx) && c->cuThreadExchangeStreamCaptureMode &&
           c->cuPointerGetAttributes && c->cuEventCreate && c->cuEventRecord && c->cuEventQuery &&
           c->cuEventSynchronize && c->cuStreamSynchronize && c->cuMemHostRegister_v2 &&
           c->cuMemHostUnregister && c->cuMemcpyHtoD_v2 && c->cuMemcpyHtoD_v2_ptds &&
           c->cuMemcpyHtoDAsync_v2 && c->cuMemcpyDtoH_v2 && c->cuMemcpyDtoH_v2_ptds &&
           c->cuMemcpyDtoHAsync_v2;
}

static const char *why_off(const struct gf_transfer_setup *setup)
{
    if (setup->options->stage == gf_stage_off)
        return "by option";
    if (setup->options->mode == gf_mode_observe)
        return "observing only";
    if (!can_copy(setup->cuda))
        return "the driver lacks a function";
    return gf_reach_is_possible() ? NULL : "the kernel has no MADV_POPULATE_READ (Linux 5.14)";
}

const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup)
{
    static struct gf_transfer_ops ops = {
        .copy_least = SIZE_MAX,
        .copy = copy,
        .copy_declined = copy_declined,
        .copy_fits = copy_fits,
        .host_alloc = gf_pinned_alloc,
        .host_free = gf_trim_behind_free,
        .host_unregister = gf_pinned_unregister,
        .host_register = gf_pinned_register,
        .host_flags = gf_pinned_flags,
        .host_mapping = gf_pinned_mapping,
        .unmap = gf_unmap,
        .context_leaving = gf_context_leaving,
        .context_left = gf_context_left,
    };
    const bool observes = setup->options->mode == gf_mode_observe;

    gf_setup = *setup;
    off = why_off(setup);
    gf_worth_start();
    if (setup->options->stage == gf_stage_off || observes)
        ops.unmap = NULL;
    if (setup->options->stage == gf_stage_off && (setup->options->pin == gf_pin_off || observes))
        return NULL;
    /* Observing counts, too; with the option off, or no way to tell memory apart, nothing does. */
    if (setup->options->stage == gf_stage_auto && can_copy(setup->cuda))
        ops.copy_least = gf_min(gf_worth_least(gf_direction_h2d), gf_worth_least(gf_direction_d2h));
    return &ops;
}

static void add_state(void *closure, struct gf_context *context)
{
    struct gf_transfer_state *state = closure;
    struct gf_ring *ring = __atomic_load_n(&context->ring, __ATOMIC_ACQUIRE);
    if (!ring)
        return;
    gf_ring_held(ring, state->ring_held);
    state->rings++;
    state->ring_bytes += gf_ring_bytes(ring);
    state->ring_limit += gf_ring_limit(ring);
    state->helpers = gf_max(state->helpers, gf_pool_helpers(context->pool));
}

void gf_transfer_state(struct gf_transfer_state *ret)
{
    *ret = (struct gf_transfer_state){.off = off, .ring_most = gf_stats_ring_most()};
    gf_context_each(add_state, ret);
}
