/* SPDX-License-Identifier: Apache-2.0 */
/* A decision about the placement, and its result. It does not change after it was published. */
#ifndef GF_ENGINE_REPORT_DECISION_H
#define GF_ENGINE_REPORT_DECISION_H

#include "host/facts.h"
#include "host/gpu.h"
#include "host/locality.h"
#include "host/bind.h"
#include "host/memory_verdict.h"

#define GF_DECISION_GPUS 64

struct gf_decision {
    bool observe;       /* true with GPUFEED=observe: the verdict is not carried out */
    const char *choice; /* how the GPUs were chosen, as text */
    bool settled;
    unsigned rebindings; /* number of earlier decisions */
    struct gf_gpu gpus[GF_DECISION_GPUS];
    size_t gpu_count;
    struct gf_facts facts; /* the facts of the process when the decision was made */
    struct gf_verdict verdict;
    struct gf_probe probe;
    bool probed;

    bool bound; /* true if masks were set */
    /* The mask in force: that of the verdict or of the guard, or the start mask. */
    struct gf_cpus cpus;
    struct gf_bind_result bind;
    struct gf_threads threads; /* numbers of threads, read back after the binding */
    /* The policy in force; MPOL_DEFAULT if the kernel refused the verdict's policy. */
    int policy;
    int policy_error;
};

#endif
