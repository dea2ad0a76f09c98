/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/step_causes.h"

static uint64_t data_ns(const struct gf_gpu_time_device *device)
{
    static const enum gf_host_cause causes[] = {
        gf_host_few_workers, gf_host_transform, gf_host_storage, gf_host_worker_cpus,
        gf_host_data,        gf_host_file,      gf_host_network};
    uint64_t ret = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(causes); i++)
        ret += device->cause_ns[causes[i]];
    return ret;
}

static uint64_t sampled_ns(const struct gf_gpu_time_device *device)
{
    uint64_t ret = 0;

    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        ret += device->state_ns[i];
    return ret;
}

uint64_t gf_step_causes_data_ns(const struct gf_step_times *times, const struct gf_gpu_time *gpu)
{
    double most = -1;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const struct gf_gpu_time_device *device = &gpu->device[i];
        const uint64_t whole = device->used ? sampled_ns(device) : 0;
        if (whole)
            most = gf_max(most, (double)data_ns(device) / (double)whole);
    }
    if (most < 0 || !times->steps)
        return UINT64_MAX;
    return (uint64_t)(most * (double)times->total_ns / (double)times->steps);
}

static uint64_t overlap(const struct gf_slow_step *step, const struct gf_gpu_gap *gap)
{
    const uint64_t start = gf_max(step->start_ns, gap->start_ns),
                   end = gf_min(step->start_ns + step->ns, gap->start_ns + gap->ns);
    return end > start ? end - start : 0;
}

const struct gf_gpu_gap *gf_step_causes_gap(const struct gf_slow_step *step,
                                            const struct gf_gpu_time *gpu, uint64_t *ret_ns)
{
    const struct gf_gpu_gap *ret = NULL;

    *ret_ns = step->ns / 4;
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        for (unsigned j = 0; j < GF_GAPS_LONGEST; j++) {
            const struct gf_gpu_gap *gap = &gpu->device[i].longest[j];
            const uint64_t ns = overlap(step, gap);
            if (ns > *ret_ns) {
                ret = gap;
                *ret_ns = ns;
            }
        }
    return ret;
}
