/* SPDX-License-Identifier: Apache-2.0 */
/* Binds before exec. */
#pragma once

#include "config/options.h"
#include "host/facts.h"
#include "host/verdict.h"
#include "tools/run/environ.h"
#include "tools/topo/visible_gpus.h"

/* Predicts which GPU a program will use, or at least the GPU's node, before the program starts. */
struct gf_prediction {
    struct gf_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t count;   /* 0 if no GPU is visible, or the GPU is uncertain */
    char why[1280]; /* the reason for the prediction or its absence; always set */
};

/*
 * Binds this process before exec, so that the program runs on the GPU's node from its first
 * instruction and its first page on.
 */

struct gf_prebind {
    bool known; /* there is a verdict; otherwise prediction.why gives the reason */
    struct gf_prediction prediction;
    struct gf_verdict verdict;
    char note[160]; /* which call the kernel refused; "" if it refused none */
};

/*
 * Decides about the binding by options and env. Unless `dry`, binds the process, which must have
 * one thread, and puts a hint for the library into env. If the mask cannot be set, mask and policy
 * stay unchanged.
 */
void gf_prebind_apply(struct gf_env *env, const struct gf_options *options, bool dry,
                      struct gf_prebind *ret);
