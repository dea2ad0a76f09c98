/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the driver. A hook calls the driver first, with the caller's arguments, and returns
 * the driver's result. The hook's own work follows, and only if the driver succeeded. A hook reads
 * no out-parameter that is NULL, and keeps errno. If the installed driver lacks the function, the
 * hook returns CUDA_ERROR_NOT_FOUND.
 *
 * Two kinds of hooks do something before the driver's call. Copies, and calls for pinned memory,
 * are offered to the engine before the driver is called (on_copy.c, on_pinned.c). The engine is
 * notified before a context ends (on_context.c).
 */
#ifndef GF_PRELOAD_HOOK_CUDA_ENTRY_H
#define GF_PRELOAD_HOOK_CUDA_ENTRY_H

#include "abi/cuda.h"
#include "preload/hook/counters.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/driver.h"

#define GF_CU(symbol) __typeof__(symbol) gf_on_##symbol;
#include "abi/hooks.def"

/* Exports a hook under the driver's name, so that all look-ups return the same address. */
#define GF_ENTRY(symbol)                                                                           \
    GF_EXPORT __typeof__(symbol) symbol __attribute__((alias("gf_on_" #symbol)))

/*
 * Returns the driver's function, or NULL if the driver lacks it. Counts the call, unless the call
 * comes from the engine.
 */
#define GF_REAL(symbol)                                                                            \
    ({                                                                                             \
        if (!gf_thread.guard)                                                                      \
            gf_count(gf_hook_##symbol);                                                            \
        const struct gf_cuda *cuda_ = gf_driver_functions();                                       \
        gf_likely(cuda_) ? cuda_->symbol : NULL;                                                   \
    })

/*
 * Defines the hooks of both stream flavours of a function. `hook` is a macro with two parameters:
 * the symbol, and the stream that is meant by the stream argument 0.
 */
#define GF_BLOCKING_PAIR(hook, symbol)                                                             \
    hook(symbol, CU_STREAM_LEGACY);                                                                \
    hook(symbol##_ptds, CU_STREAM_PER_THREAD)
#define GF_STREAM_PAIR(hook, symbol)                                                               \
    hook(symbol, CU_STREAM_LEGACY);                                                                \
    hook(symbol##_ptsz, CU_STREAM_PER_THREAD)

#endif
