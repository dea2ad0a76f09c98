/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/step_causes.h"

#define LEAST_PART 4u /* a difference takes at least this part of the excess of a slow step */
/* Low estimates of a page fault's duration: clearing a page, and reading one from an SSD. */
#define MINOR_NS 500u
#define MAJOR_NS 100000u

static uint64_t data_ns(const struct gf_gpu_time_device *device)
{
    static const enum gf_host_cause causes[] = {
        gf_host_few_workers,   gf_host_transform,    gf_host_storage,  gf_host_worker_cpus,
        gf_host_workers_sleep, gf_host_workers_lock, gf_host_data,     gf_host_queue,
        gf_host_process,       gf_host_pipe,         gf_host_download, gf_host_file,
        gf_host_network};
    uint64_t ret = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(causes); i++)
        ret += device->cause_ns[causes[i]];
    return ret;
}

uint64_t gf_step_causes_data_ns(const struct gf_step_times *times, const struct gf_gpu_time *gpu)
{
    double most = -1;

    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const struct gf_gpu_time_device *device = &gpu->device[i];
        const uint64_t whole = device->used ? gf_gpu_time_whole(device) : 0;
        if (whole)
            most = gf_max(most, (double)data_ns(device) / (double)whole);
    }
    if (most < 0 || !times->steps)
        return UINT64_MAX;
    return (uint64_t)(most * (double)times->total_ns / (double)times->steps);
}

const char *gf_step_difference_name(enum gf_step_difference difference)
{
    static const char *const names[] = {
#define GF_STEP_DIFFERENCE(name) #name,
        GF_STEP_DIFFERENCES(GF_STEP_DIFFERENCE)
#undef GF_STEP_DIFFERENCE
    };
    return names[difference];
}

/* By how much a fact of the step exceeds that of a typical step. index: in gf_step_facts.value. */
static uint64_t excess(const struct gf_step_times *times, const struct gf_slow_step *step,
                       unsigned index)
{
    const uint64_t here = step->facts.value[index];
    return here - gf_min(times->typical.value[index], here);
}

/* Of `count` facts from `first` on, the number of the one that exceeds a typical step the most. */
static unsigned most_excess(const struct gf_step_times *times, const struct gf_slow_step *step,
                            unsigned first, unsigned count)
{
    unsigned most = 0;

    for (unsigned i = 1; i < count; i++)
        if (excess(times, step, first + i) > excess(times, step, first + most))
            most = i;
    return most;
}

#define ENGINE(fact) (GF_CAUSE_COUNT + (unsigned)(fact))

/*
 * Threads may stall or fault at the same time, and the quota stops each thread. So a time is at most
 * that of the step.
 */
static void find_excesses(const struct gf_step_times *times, const struct gf_slow_step *step,
                          const struct gf_step_cause *cause, uint64_t ret[GF_STEP_DIFFERENCE_COUNT])
{
    memset(ret, 0, GF_STEP_DIFFERENCE_COUNT * sizeof(*ret));
    ret[gf_step_by_stall] = excess(times, step, cause->stall);
    ret[gf_step_by_quota] = excess(times, step, ENGINE(gf_step_fact_throttled));
    ret[gf_step_by_faults] = excess(times, step, ENGINE(gf_step_fact_minor)) * MINOR_NS +
                             excess(times, step, ENGINE(gf_step_fact_major)) * MAJOR_NS;
    ret[gf_step_by_communication] = excess(times, step, ENGINE(gf_step_fact_communicating));
    ret[gf_step_by_clock] = excess(times, step, ENGINE(gf_step_fact_clock));
    ret[gf_step_by_work] = excess(times, step, ENGINE(gf_step_fact_queued));
    ret[gf_step_by_idle] = excess(times, step, ENGINE(GF_STEP_FACT_IDLE) + cause->idle);
    for (unsigned i = 0; i < GF_STEP_DIFFERENCE_COUNT; i++)
        ret[i] = gf_min(ret[i], step->ns);
    /* These two never overlap, so only the longer one counts. */
    ret[ret[gf_step_by_idle] < ret[gf_step_by_work] ? gf_step_by_idle : gf_step_by_work] = 0;
}

static enum gf_step_difference find_difference(const struct gf_step_times *times,
                                               const struct gf_slow_step *step,
                                               const struct gf_step_cause *cause)
{
    uint64_t ns[GF_STEP_DIFFERENCE_COUNT], most = 0;
    unsigned i = 0;

    find_excesses(times, step, cause, ns);
    for (unsigned k = 0; k < GF_STEP_DIFFERENCE_COUNT; k++)
        most = gf_max(most, ns[k]);
    if (LEAST_PART * most < step->ns - times->p50_ns)
        return gf_step_by_unknown;
    while (2 * ns[i] < most)
        i++;
    return (enum gf_step_difference)i;
}

void gf_step_causes_find(const struct gf_step_times *times, const struct gf_slow_step *step,
                         struct gf_step_cause *ret)
{
    const struct gf_step_facts *facts = &step->facts;

    *ret = (struct gf_step_cause){
        .stall = (enum gf_cause)most_excess(times, step, 0, GF_CAUSE_COUNT),
        .idle = (enum gf_host_cause)most_excess(times, step, ENGINE(GF_STEP_FACT_IDLE),
                                                GF_HOST_CAUSE_COUNT),
        .throttled_ns = gf_step_fact(facts, gf_step_fact_throttled),
        .communicating_ns = gf_step_fact(facts, gf_step_fact_communicating),
        .clock_ns = gf_step_fact(facts, gf_step_fact_clock),
        .queued_ns = gf_step_fact(facts, gf_step_fact_queued),
        .minor = gf_step_fact(facts, gf_step_fact_minor),
        .major = gf_step_fact(facts, gf_step_fact_major),
    };
    ret->stall_ns = facts->value[ret->stall];
    ret->idle_ns = gf_step_fact(facts, GF_STEP_FACT_IDLE + ret->idle);
    ret->difference = find_difference(times, step, ret);
}
