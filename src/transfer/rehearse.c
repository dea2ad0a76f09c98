/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/rehearse.h"

#include "transfer/classify.h"
#include "transfer/context.h"
#include "transfer/setup.h"
#include "transfer/stats.h"

static void ask(void)
{
    static const struct gf_copy_kind kind = {gf_direction_h2d, false};
    const char here = 0;
    const struct gf_copy_call call = {.way = gf_copy_h2d,
                                      .dst = (uintptr_t)&here,
                                      .src = (uintptr_t)&here,
                                      .bytes = sizeof(here),
                                      .stream = CU_STREAM_LEGACY};
    CUstreamCaptureStatus status;
    enum gf_direction direction;
    enum gf_forward why;
    unsigned flags;

    gf_classify_host(&call, false, &direction, &why);
    if (gf_setup.cuda->cuStreamIsCapturing(call.stream, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return;
    gf_context_rehearse();
    gf_setup.cuda->cuCtxGetFlags(&flags);
    gf_classify_ends(&call, kind.direction, 0, &why);
    gf_stats_timed(kind, gf_forward_warming, 0, 0);
}

/* As a copy does, which would not ask without a context. */
void gf_rehearse(void)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUcontext current = NULL;

    if (cuda->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current ||
        cuda->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return;
    ask();
    cuda->cuThreadExchangeStreamCaptureMode(&mode);
}
