/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "preload/attach/counters.h"
#include "preload/attach/submissions.h"
#include "preload/trace/stall.h"

/*
 * Asks the driver, just before the program waits for work, whether that work is already complete. A
 * query is allowed wherever the wait itself is allowed. The query runs in relaxed capture mode, and
 * never on a stream that is captured. So the query invalidates no capture that the wait itself
 * would leave valid. The functions return false if the query fails, and keep errno. The functions
 * may be called on any thread of the program.
 */

/*
 * Whether the stream is known not to be captured. The hooks do not see captures that begin through
 * functions that they do not know, and most queries would invalidate such a capture. May change errno.
 */
bool gf_stream_is_uncaptured(const struct gf_cuda *cuda, CUstream stream);

/* stream: never 0, because the meaning of 0 depends on the stream flavour of the program's call. */
bool gf_stream_is_idle(CUstream stream);
bool gf_event_is_idle(CUevent event);
/*
 * Whether the stream is known to have unfinished work. Queries the legacy stream under the
 * conditions of gf_copy_is_idle.
 */
bool gf_stream_is_busy(CUstream stream);
/*
 * The same as gf_stream_is_idle, before a blocking copy on the legacy or the per-thread stream.
 * Such a copy waits for both streams, so both must be idle. But a copy on the per-thread stream leaves captures of
 * blocking streams valid, which a query of the legacy stream does not. So while such a
 * capture is open, the function returns false without a query. No capture begins while the query
 * runs.
 */
bool gf_copy_is_idle(CUstream stream);

/* Times calls of the driver, so that a slow call is reported as a stall. */

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
        if (gf_unlikely(gf_stall_should_query(&mark_, kind)) && !gf_thread.inside)                 \
            gf_stall_query_done(&mark_, is_idle);                                                  \
        gf_submissions_doing(1 + (kind));                                                          \
        const CUresult timed_ = (call);                                                            \
        gf_submissions_doing(0);                                                                   \
        gf_submissions_waited();                                                                   \
        gf_stall_end(&mark_, kind, name, size, NULL);                                              \
        timed_;                                                                                    \
    })
