/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/api/host_free.h"

#include "engine/transfer/context/context.h"
#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/setup/setup.h"
#include "engine/transfer/staging/ring.h"
#include "engine/transfer/staging/ring_due.h"
#include "engine/transfer/staging/ring_trim.h"

/*
 * Whether the driver waits when it frees p. It does not wait for a block that shares its mapping,
 * or for a block of another context.
 */
static bool free_waits(void *p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUcontext owner = NULL;
    size_t bytes = 0;
    void *into[] = {&owner, &bytes};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, (uintptr_t)p) ==
               CUDA_SUCCESS &&
           owner == context->handle && bytes > GF_PINNED_CACHE_MOST;
}

/*
 * Whether this free waits for the current context's work. If so, the ring may be shrunk after the
 * free.
 */
static bool free_may_trim(void *p)
{
    struct gf_context *context = gf_context_enter();
    const bool may = context && free_waits(p, context);
    if (context)
        gf_context_leave(context);
    return may;
}

/*
 * Called after a successful call that waited. The call would have failed if a capture forbade
 * waiting.
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
 * Leaves the context before the free, because a call that waits must not delay the end of the
 * context.
 */
bool gf_host_free(void *p, CUresult *ret_result)
{
    const bool trims = gf_ring_trim_is_due() && free_may_trim(p);
    const bool done = gf_pinned_free(p, ret_result);

    if (!trims)
        return done;
    if (!done)
        *ret_result = gf_setup.cuda->cuMemFreeHost(p);
    if (*ret_result == CUDA_SUCCESS)
        trim_ring();
    return true;
}

void gf_host_waited(void)
{
    if (gf_ring_trim_is_due())
        trim_ring();
}
