/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/api/host_free.h"

#include "engine/transfer/context.h"
#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/staging/ring.h"
#include "engine/transfer/staging/ring_due.h"
#include "engine/transfer/staging/ring_trim.h"

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
 * failed.
 */
static void trim_ring(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct gf_context *context = gf_context_enter();
    if (!context)
        return;
    if (gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        gf_ring_trim(context);
        gf_pinned_trim_if_short(context);
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_context_leave(context);
}

/*
 * Leaves the context before the driver's free. The free may wait for the device, and a thread that
 * is inside a context delays the end of that context.
 */
bool gf_host_free(void *p, CUresult *ret_result)
{
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

bool gf_device_free_waits(CUdeviceptr p)
{
    return free_may_trim(p, device_free_waits);
}

void gf_host_waited(void)
{
    if (gf_ring_trim_is_due())
        trim_ring();
}
