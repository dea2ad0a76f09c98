/* SPDX-License-Identifier: Apache-2.0 */
#define GPUFEED_BUILDING
#include "gpufeed.h"

#include "preload/hook/attach/attach.h"
#include "preload/trace/stall.h"

void gpufeed_step(unsigned long long step)
{
    gf_stall_step(step);
}

int gpufeed_active(void)
{
    return gf_engine() != NULL;
}

int gpufeed_gpu_node(void)
{
    const struct gf_engine *engine = gf_engine_enter();
    if (!engine)
        return -1;
    const int node = engine->gpu_node ? engine->gpu_node() : -1;
    gf_engine_leave();
    return node;
}
