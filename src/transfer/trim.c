/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/trim.h"

#include "transfer/context.h"
#include "transfer/pinned.h"
#include "transfer/ring.h"
#include "transfer/setup.h"
#include "transfer/small.h"

/* A block that shares its mapping with others, and one of another context, may be freed at once. */
static bool free_waits(void *p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUcontext owner = NULL;
    size_t bytes = 0;
    void *into[] = {&owner, &bytes};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, (uintptr_t)p) ==
               CUDA_SUCCESS &&
           owner == context->handle && bytes > GF_SMALL_MOST;
}

/* Whether it waits for the work of the current context, whose ring may then be given up in part. */
static bool free_may_trim(void *p)
{
    struct gf_context *context = gf_context_enter();
    const bool may = context && free_waits(p, context);
    if (context)
        gf_context_leave(context);
    return may;
}

/* After a free that went well: beside a capture that forbids waiting it would not have. */
static void trim(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct gf_context *context = gf_context_enter();
    if (!context)
        return;
    if (gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        gf_ring_trim(context);
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_context_leave(context);
}

/* No context is kept alive over a call that waits for its work. */
bool gf_trim_behind_free(void *p, CUresult *ret_result)
{
    const bool trims = gf_ring_is_due() && free_may_trim(p);
    const bool done = gf_pinned_free(p, ret_result);

    if (!trims)
        return done;
    if (!done)
        *ret_result = gf_setup.cuda->cuMemFreeHost(p);
    if (*ret_result == CUDA_SUCCESS)
        trim();
    return true;
}
