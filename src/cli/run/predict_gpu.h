/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts which GPU a program will use, or at least the GPU's node, before the program starts. */
#ifndef GF_CLI_RUN_PREDICT_GPU_H
#define GF_CLI_RUN_PREDICT_GPU_H

#include "cli/topo/visible_gpus.h"
#include "config/options.h"
#include "host/facts.h"
#include "host/machine.h"
#include "host/verdict.h"

struct gf_prediction {
    struct gf_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t count;   /* 0 if no GPU is visible, or the GPU is uncertain */
    char why[1280]; /* the reason for the prediction or its absence; always set */
};

/*
 * The prediction is certain in three cases: one GPU is visible; the launcher has one rank on this
 * host for each visible GPU, and the GPUs' order is known; or all visible GPUs are near the same
 * nodes. The last case is not enough for gf_bind_exclusive, in which ranks divide a node's cores.
 */
void gf_predict_gpu(const struct gf_machine *machine, const struct gf_visible_gpus *visible,
                    const struct gf_rank *rank, enum gf_bind bind, struct gf_prediction *ret);

#endif
