/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about steps from the GPU's time: waits for data, and why a step was slow. */
#pragma once

#include "abi/trace_api.h"
#include "engine/gputime/sampler.h"

/*
 * The mean time of a step in which a GPU had nothing to do because the program waited for data. The
 * GPU that waited for the longest time counts. UINT64_MAX if the GPU's time was not sampled.
 */
uint64_t gf_step_causes_data_ns(const struct gf_step_times *times, const struct gf_gpu_time *gpu);

/* What was different in a slow step: the name in report and log. */
#define GF_STEP_DIFFERENCES(X)                                                                     \
    X(stall)         /* calls stalled */                                                           \
    X(quota)         /* the CPU quota stopped the process */                                       \
    X(faults)        /* page faults of the process */                                              \
    X(communication) /* a GPU had only communication to do, so another rank may have been late */  \
    X(clock)         /* the GPU's clock was low */                                                 \
    X(work)          /* a GPU had work for longer */                                               \
    X(idle)          /* a GPU had nothing to do, for another reason */                             \
    X(unknown)

enum gf_step_difference {
#define GF_STEP_DIFFERENCE(name) gf_step_by_##name,
    GF_STEP_DIFFERENCES(GF_STEP_DIFFERENCE)
#undef GF_STEP_DIFFERENCE
        GF_STEP_DIFFERENCE_COUNT,
};

const char *gf_step_difference_name(enum gf_step_difference difference);

struct gf_step_cause {
    enum gf_step_difference difference;
    /* The cause of stalls, and of the GPU's idle time, with the most time above a typical step. */
    enum gf_cause stall;
    enum gf_host_cause idle;
    uint64_t stall_ns, idle_ns; /* the whole time of this cause in the step */
    uint64_t throttled_ns, communicating_ns, clock_ns, queued_ns;
    uint64_t minor, major; /* page faults */
};

/*
 * The difference is what took at least a quarter of the time by which the step exceeds the median.
 * Of several, a cause that is named before another one also explains the time of the latter.
 */
void gf_step_causes_find(const struct gf_step_times *times, const struct gf_slow_step *step,
                         struct gf_step_cause *ret);
