/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the driver. Each calls the driver first, with the caller's own arguments, and
 * returns the driver's result. A hook acts only after the driver succeeded. It reads no
 * out-parameter that is NULL, and it keeps errno. A function that the installed driver lacks
 * returns CUDA_ERROR_NOT_FOUND.
 *
 * Copies and pinned memory are offered to the engine first, which may do the driver's part, and it
 * is notified before a context ends (on_copy.c, on_pinned.c, on_context.c).
 */
#ifndef GF_PRELOAD_HOOK_CUDA_ENTRY_H
#define GF_PRELOAD_HOOK_CUDA_ENTRY_H

#include "abi/cuda.h"
#include "preload/hook/counters.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/driver.h"

#define GF_CU(symbol) __typeof__(symbol) gf_on_##symbol;
#include "abi/hooks.def"

/*
 * Exports a hook under the driver's name, so that every way to look it up gives the same address.
 */
#define GF_ENTRY(symbol)                                                                           \
    GF_EXPORT __typeof__(symbol) symbol __attribute__((alias("gf_on_" #symbol)))

/*
 * The driver's function, or NULL if the driver lacks it. Counts the call if the program made it,
 * not the engine.
 */
#define GF_REAL(symbol)                                                                            \
    ({                                                                                             \
        if (!gf_thread.guard)                                                                      \
            gf_count(gf_hook_##symbol);                                                            \
        const struct gf_cuda *cuda_ = gf_driver_functions();                                       \
        gf_likely(cuda_) ? cuda_->symbol : NULL;                                                   \
    })

/*
 * Defines the hooks of both stream flavours of a function. `hook` is a macro that takes the symbol
 * and the stream that a stream argument of 0 stands for.
 */
#define GF_BLOCKING_PAIR(hook, symbol)                                                             \
    hook(symbol, CU_STREAM_LEGACY);                                                                \
    hook(symbol##_ptds, CU_STREAM_PER_THREAD)
#define GF_STREAM_PAIR(hook, symbol)                                                               \
    hook(symbol, CU_STREAM_LEGACY);                                                                \
    hook(symbol##_ptsz, CU_STREAM_PER_THREAD)

#endif
