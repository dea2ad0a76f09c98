/* SPDX-License-Identifier: Apache-2.0 */
/* One decision and what came of it: made by the engine, shown by the report and the lines. */
#ifndef GF_OBSERVE_DECISION_H
#define GF_OBSERVE_DECISION_H

#include "config/options.h"
#include "host/facts.h"
#include "observe/locality.h"
#include "place/bind.h"
#include "place/verdict.h"

#define GF_DECISION_GPUS 64

struct gf_decision {
    bool observe;        /* nothing was done: the verdict says what would have been */
    const char *choice;  /* how the GPUs were chosen */
    bool settled;
    unsigned rebindings; /* decisions before this one that had bound to something else */
    struct gf_gpu gpus[GF_DECISION_GPUS];
    size_t gpu_count;
    struct gf_verdict verdict;
    struct gf_probe probe;
    bool probed;

    bool bound;          /* masks were set */
    struct gf_cpus cpus; /* in force now: the verdict's, or wider after the guard; or the start mask */
    struct gf_bind_result bind;
    struct gf_threads threads; /* read back behind it */
    int policy;          /* in force; MPOL_DEFAULT where it was refused */
    int policy_error;
};

/*
 * The line for when the GPU is known, "GPU 0 NVIDIA H200 0000:41:00.0 node 1 (sysfs): 18 threads
 * and 8 of workers on CPUs 8-15; memory prefers node 1", or why nothing was done.
 */
void gf_summary_verdict(const struct gf_decision *decision, const struct gf_options *options,
                        char *buf, size_t size);

#endif
