/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/rehearse.h"

#include "transfer/classify.h"
#include "transfer/context.h"
#include "transfer/setup.h"
#include "transfer/stats.h"

/* As a copy does, which would not ask without a context. */
void gf_rehearse(void)
{
    static const struct gf_copy_kind kind = {gf_direction_h2d, false};
    const struct gf_cuda *cuda = gf_setup.cuda;
    const char here = 0;
    const struct gf_copy_call call = {.way = gf_copy_h2d,
                                      .dst = (uintptr_t)&here,
                                      .src = (uintptr_t)&here,
                                      .bytes = sizeof(here),
                                      .stream = CU_STREAM_LEGACY};
    CUcontext current = NULL;
    enum gf_direction direction;
    enum gf_forward why;
    unsigned flags;

    if (cuda->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return;
    gf_classify_host(&call, false, &direction, &why);
    gf_context_rehearse();
    cuda->cuCtxGetFlags(&flags);
    gf_classify_ends(&call, kind.direction, 0, &why);
    gf_stats_timed(kind, gf_forward_warming, 0, 0);
}
