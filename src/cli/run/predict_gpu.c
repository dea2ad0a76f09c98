/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/predict_gpu.h"

#include "host/locate.h"

#include <stdio.h>
#include <string.h>

static void add_gpu(const struct gf_visible_gpu *visible, int device, struct gf_prediction *ret)
{
    struct gf_gpu *gpu = &ret->gpus[ret->count++];

    memset(gpu, 0, sizeof(*gpu));
    memcpy(gpu->bdf, visible->bdf, sizeof(gpu->bdf));
    memcpy(gpu->name, visible->model, sizeof(gpu->name));
    gpu->device = device;
    gpu->attr_node = -1;
    gpu->nvml_node = -1;
}

/* Whether the nodes of all GPUs of the prediction are known, and are the same. */
static bool have_same_nodes(const struct gf_machine *machine, const struct gf_prediction *ret)
{
    struct gf_nodes first, other;
    const char *source;

    if (!gf_locate(machine, &ret->gpus[0], &first, &source))
        return false;
    for (size_t i = 1; i < ret->count; i++)
        if (!gf_locate(machine, &ret->gpus[i], &other, &source) || !gf_set_equal(&first, &other))
            return false;
    return true;
}

void gf_predict_gpu(const struct gf_machine *machine, const struct gf_visible_gpus *visible,
                    const struct gf_rank *rank, enum gf_bind bind, struct gf_prediction *ret)
{
    ret->count = 0;
    if (!visible->count) {
        snprintf(ret->why, sizeof(ret->why), "no GPU is visible");
        return;
    }
    if (visible->count == 1) {
        add_gpu(&visible->gpus[0], visible->ordered ? 0 : -1, ret);
        snprintf(ret->why, sizeof(ret->why), "the only visible GPU");
        return;
    }
    if (rank->local_rank >= 0 && rank->local_size == (int)visible->count && visible->ordered &&
        rank->local_rank < rank->local_size) {
        add_gpu(&visible->gpus[rank->local_rank], rank->local_rank, ret);
        snprintf(ret->why, sizeof(ret->why), "local rank %d of %d from %s", rank->local_rank,
                 rank->local_size, rank->source);
        return;
    }
    for (size_t i = 0; i < visible->count; i++)
        add_gpu(&visible->gpus[i], visible->ordered ? (int)i : -1, ret);
    if (bind != gf_bind_exclusive && have_same_nodes(machine, ret)) {
        snprintf(ret->why, sizeof(ret->why), "all %zu visible GPUs are near the same node",
                 visible->count);
        return;
    }
    ret->count = 0;
    snprintf(ret->why, sizeof(ret->why),
             "%zu GPUs are visible%s%s; the library binds when the program uses one",
             visible->count, visible->doubt ? ", and " : "", visible->doubt ? visible->doubt : "");
}
