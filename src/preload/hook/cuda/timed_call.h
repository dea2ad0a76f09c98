/* SPDX-License-Identifier: Apache-2.0 */
/* Times calls of the driver, so that a slow call is reported as a stall. */
#ifndef GF_PRELOAD_HOOK_CUDA_TIMED_CALL_H
#define GF_PRELOAD_HOOK_CUDA_TIMED_CALL_H

#include "preload/hook/cuda/stream_idle.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/submissions.h"
#include "preload/trace/stall.h"

/*
 * The macro's value is the call's result. block: an expression for the host memory that the call
 * allocated or got as an argument, or NULL. The expression is evaluated only if the call succeeded.
 */
#define GF_TIMED(kind, name, size, block, call)                                                    \
    ({                                                                                             \
        struct gf_stall_mark mark_;                                                                \
        gf_stall_begin(&mark_, kind, size);                                                        \
        gf_submissions_doing(1 + (kind));                                                          \
        const CUresult timed_ = (call);                                                            \
        gf_submissions_doing(0);                                                                   \
        gf_stall_end(&mark_, kind, name, size, timed_ == CUDA_SUCCESS ? (block) : NULL);           \
        timed_;                                                                                    \
    })

/*
 * The same as GF_TIMED, for a call that waits for the GPU. is_idle: an expression that tells
 * whether the work is already complete. The expression queries the driver, so it is evaluated only
 * before some calls. Only a wait on an idle GPU is a stall.
 */
#define GF_WAITED(kind, name, size, is_idle, call)                                                 \
    ({                                                                                             \
        struct gf_stall_mark mark_;                                                                \
        gf_stall_begin(&mark_, kind, size);                                                        \
        if (gf_unlikely(gf_stall_should_query(&mark_, kind)) && !gf_thread.guard)                  \
            gf_stall_query_done(&mark_, is_idle);                                                  \
        gf_submissions_doing(1 + (kind));                                                          \
        const CUresult timed_ = (call);                                                            \
        gf_submissions_doing(0);                                                                   \
        gf_stall_end(&mark_, kind, name, size, NULL);                                              \
        timed_;                                                                                    \
    })

#endif
