/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for variables that make CUDA, PyTorch or NCCL slow. Users often set them for debugging,
 * and forget to unset them.
 */
#include "cli/doctor/checks.h"

#include "os/launch.h"

#include <string.h>

static const struct {
    const char *name;
    /*
     * A value that contains this word makes the program slow. If `part` is "", each value except
     * "0" and "" does.
     */
    const char *part;
    const char *effect, *fix;
} slow[] = {
    {"CUDA_LAUNCH_BLOCKING", "", "each kernel launch waits for the GPU", NULL},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "", "each tensor is allocated by the driver", NULL},
    {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", "GPU memory becomes fragmented",
     "set expandable_segments:True"},
    {"NCCL_P2P_DISABLE", "", "GPUs exchange data through host memory", NULL},
    {"NCCL_SHM_DISABLE", "", "ranks of one host exchange data through sockets", NULL},
    {"NCCL_IB_DISABLE", "", "NCCL does not use InfiniBand or RoCE", NULL},
    {"NCCL_IGNORE_CPU_AFFINITY", "", "NCCL's threads leave the CPUs that the job was given", NULL},
    {"NCCL_DEBUG", "TRACE", "NCCL writes a line for each call", "unset it, or use NCCL_DEBUG=WARN"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "each collective call is compared across ranks", NULL},
};

static bool is_set(const char *value, const char *part)
{
    if (!value)
        return false;
    return *part ? strstr(value, part) != NULL : *value && strcmp(value, "0") != 0;
}

void gf_check_environment(const struct gf_check_input *input, struct gf_findings *ret)
{
    bool any = false;

    for (size_t i = 0; i < GF_ARRAY_LEN(slow); i++) {
        const char *value = gf_launch_variable(input->envp, slow[i].name);
        if (!is_set(value, slow[i].part))
            continue;
        struct gf_finding *finding =
            gf_finding_add(ret, gf_status_problem, "%s: %s", slow[i].name, slow[i].effect);
        gf_finding_evidence(finding, "%s=%s", slow[i].name, value);
        gf_finding_fix(finding, "%s%s", slow[i].fix ? slow[i].fix : "unset ",
                       slow[i].fix ? "" : slow[i].name);
        any = true;
    }
    if (!any)
        gf_finding_add(ret, gf_status_ok, "no variable slows CUDA, PyTorch or NCCL down");
}
