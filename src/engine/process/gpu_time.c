/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/gpu_time.h"

#include "base/log.h"
#include "engine/gputime/sampler.h"
#include "host/gpu.h"
#include "host/tasks.h"
#include "engine/process/process_state.h"

#include <string.h>
#include <unistd.h>

/*
 * Whether the driver loads a tool because of the variable CUDA_INJECTION64_PATH. Such a tool would
 * take the sampler's queries for calls of the program.
 */
static bool has_injection(void)
{
    static const char name[] = "CUDA_INJECTION64_PATH=";
    for (char *const *entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, name, sizeof(name) - 1) == 0 && (*entry)[sizeof(name) - 1])
            return true;
    return false;
}

static bool is_mapped(const char *file)
{
    uintptr_t at;
    return gf_tasks_find_map(0, file, &at) == 0;
}

/*
 * Returns a reason not to sample, because queries would disturb the program or a tool. Returns NULL
 * if there is no such reason.
 */
static const char *find_reason(const struct gf_preload *preload)
{
    if (preload->options->origin.gpu_time == gf_origin_environment)
        return NULL; /* the user requested sampling */
    if (preload->driver_shim)
        return "a profiler is preloaded in the driver's place";
    if (is_mapped("libsanitizer-"))
        return "the process runs under compute-sanitizer";
    if (has_injection() || is_mapped("libToolsInjection"))
        return "a profiler is loaded into the driver";
    if (access("/dev/dxg", F_OK) == 0)
        return "in WSL2 a query makes the driver submit its queue";
    return NULL;
}

void gf_gpu_time_prepare(void)
{
    const struct gf_preload *preload = gf_process.preload;
    const unsigned hz = preload->options->gpu_time;
    const char *reason = hz ? find_reason(preload) : NULL;

    if (reason)
        gf_info("the GPU's time is not sampled: %s", reason);
    gf_sampler_prepare(&(struct gf_sampler_setup){.cuda = preload->cuda,
                                                  .table = preload->submissions,
                                                  .end_lost_calls = preload->end_lost_calls,
                                                  .python = preload->python,
                                                  .step_facts = preload->step_facts,
                                                  .step_graph = preload->step_graph,
                                                  .clock_loss = gf_gpu_clock_loss,
                                                  .hz = hz,
                                                  .reason = reason});
}

void gf_gpu_time_start(void)
{
    const struct gf_preload *preload = gf_process.preload;

    if (!gf_load_relaxed(&preload->submissions->contexts[0].context) || gf_process_dead())
        return;
    gf_gpu_clock_find(preload->cuda);
    gf_sampler_start();
}
