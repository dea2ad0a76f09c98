/* SPDX-License-Identifier: Apache-2.0 */
/* Who is watched for stalls: with GPUFEED_LOG every process, else those that initialised CUDA. */
#ifndef GF_HOOK_WATCH_H
#define GF_HOOK_WATCH_H

#include "observe/stall.h"

/* After the first successful cuInit: opens the log and watches, if that was not done at birth. */
void gf_watch_cuda(void);

/* Runs a call of the driver's, timed. block is looked at after it: host memory, or NULL. */
#define GF_TIMED(kind, name, size, block, call)                                                    \
    ({                                                                                             \
        struct gf_stall_mark mark_;                                                                \
        gf_stall_begin(&mark_, kind);                                                              \
        const CUresult timed_ = (call);                                                            \
        gf_stall_end(&mark_, kind, name, size, timed_ == CUDA_SUCCESS ? (block) : NULL);           \
        timed_;                                                                                    \
    })

/* On our thread, once the engine is published: a second one, which writes the log. */
void gf_watch_serve(void);

#endif
