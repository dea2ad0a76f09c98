/* SPDX-License-Identifier: Apache-2.0 */
/* One decision and its result. Constant once published. */
#ifndef GF_ENGINE_REPORT_DECISION_H
#define GF_ENGINE_REPORT_DECISION_H

#include "engine/machine/facts.h"
#include "engine/machine/gpu.h"
#include "engine/machine/locality.h"
#include "engine/machine/probe.h"
#include "engine/place/bind.h"
#include "engine/place/verdict_types.h"

#define GF_DECISION_GPUS 64

struct gf_decision {
    bool observe;       /* nothing was changed: the verdict is hypothetical */
    const char *choice; /* how the GPUs were chosen */
    bool settled;
    unsigned rebindings; /* number of earlier decisions */
    struct gf_gpu gpus[GF_DECISION_GPUS];
    size_t gpu_count;
    struct gf_facts facts; /* the facts at this decision */
    struct gf_verdict verdict;
    struct gf_probe probe;
    bool probed;

    bool bound;          /* masks were set */
    struct gf_cpus cpus; /* the mask in force: the verdict's, the guard's, or the start mask */
    struct gf_bind_result bind;
    struct gf_threads threads; /* read back after binding */
    int policy;                /* the policy in force; MPOL_DEFAULT if the kernel refused it */
    int policy_error;
};

#endif
