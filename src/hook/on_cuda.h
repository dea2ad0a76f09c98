/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the driver. Each calls the driver first, with the caller's own arguments, and hands
 * back what it returned; what a hook adds happens after success only, reads no out-parameter that
 * the caller left NULL, and keeps errno. A function that the installed driver lacks answers
 * CUDA_ERROR_NOT_FOUND.
 */
#ifndef GF_HOOK_ON_CUDA_H
#define GF_HOOK_ON_CUDA_H

#include "hook/counters.h"
#include "hook/cuda.h"
#include "hook/routes.h"
#include "hook/thread.h"

#define GF_CU(symbol) __typeof__(symbol) gf_on_##symbol;
#include "hook/hooks.def"

/* Exports a hook under the driver's name: the same address on every path to it. */
#define GF_ENTRY(symbol)                                                                           \
    GF_EXPORT __typeof__(symbol) symbol __attribute__((alias("gf_on_" #symbol)))

/* The driver's function; NULL when there is none. Counts the program's calls, not the engine's. */
#define GF_REAL(symbol)                                                                            \
    ({                                                                                             \
        if (!gf_thread.guard)                                                                      \
            gf_count(gf_hook_##symbol);                                                            \
        const struct gf_cuda *cuda_ = gf_routes_cuda();                                            \
        gf_likely(cuda_) ? cuda_->symbol : NULL;                                                   \
    })

#endif
