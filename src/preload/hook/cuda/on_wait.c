/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that wait for the GPU. The calls are timed for the report. A wait is a stall
 * only if the GPU was idle when the wait began. The driver cannot be asked whether a whole context
 * is idle, so a wait by cuCtxSynchronize is timed, but never a stall. Freeing device memory also
 * waits, but programs do not expect that, so every slow free is a stall.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/cuda/copy_offload.h"
#include "preload/trace/copy_waits.h"

/* Notifies the engine after a driver call that waited for all work of the current context. */
static CUresult notify_waited(CUresult result)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer =
        result == CUDA_SUCCESS ? gf_engine_call_transfer(&call) : NULL;
    if (transfer) {
        transfer->waited();
        gf_engine_call_end(&call);
    }
    return result;
}

/* Whether the engine is to be notified after the free of device memory. */
static bool free_waits(CUdeviceptr p)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return false;
    const bool waits = transfer->device_free_waits(p);
    gf_engine_call_end(&call);
    return waits;
}

CUresult gf_on_cuMemFree_v2(CUdeviceptr dptr)
{
    __typeof__(cuMemFree_v2) *real = GF_REAL(cuMemFree_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const bool notifies = free_waits(dptr);
    const CUresult result = GF_TIMED(gf_timed_driver_free, "cuMemFree_v2", 0, NULL, real(dptr));
    return notifies ? notify_waited(result) : result;
}
GF_ENTRY(cuMemFree_v2);

CUresult gf_on_cuCtxSynchronize(void)
{
    __typeof__(cuCtxSynchronize) *real = GF_REAL(cuCtxSynchronize);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return notify_waited(GF_TIMED(gf_timed_driver_wait, "cuCtxSynchronize", 0, NULL, real()));
}
GF_ENTRY(cuCtxSynchronize);

/*
 * These two functions are called around a wait, which may belong to a copy that the thread has just
 * queued (preload/trace/copy_waits.h).
 */
static void expect_copy(CUstream stream)
{
    if (gf_copy_waits_wanted() && !gf_thread.guard)
        gf_copy_waits_expect((uintptr_t)stream, gf_copy_offload_submitted());
}

static CUresult forget_copy(CUresult result)
{
    gf_copy_waits_forget();
    return result;
}

/* After a wait for a stream, the program knows the results that were visible before (`made`). */
static CUresult saw_visible(struct gf_visible *visible, uint32_t made, CUresult result)
{
    if (visible && result == CUDA_SUCCESS)
        gf_store_relaxed(&visible->seen, made);
    return result;
}

/* The log uses the same name for both stream flavours. */
#define STREAM_WAIT(symbol, null_stream)                                                           \
    CUresult gf_on_##symbol(CUstream hStream)                                                      \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        const CUstream stream = hStream ? hStream : null_stream;                                   \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        struct gf_visible *visible = gf_submissions_visible(stream);                               \
        const uint32_t made = visible ? gf_load_acquire(&visible->made) : 0;                       \
        expect_copy(stream);                                                                       \
        return saw_visible(visible, made,                                                          \
                           forget_copy(GF_WAITED(gf_timed_driver_wait, "cuStreamSynchronize", 0,   \
                                                 gf_stream_is_idle(stream), real(hStream))));      \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(STREAM_WAIT, cuStreamSynchronize);

CUresult gf_on_cuEventSynchronize(CUevent hEvent)
{
    __typeof__(cuEventSynchronize) *real = GF_REAL(cuEventSynchronize);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    return GF_WAITED(gf_timed_driver_wait, "cuEventSynchronize", 0, gf_event_is_idle(hEvent),
                     real(hEvent));
}
GF_ENTRY(cuEventSynchronize);
