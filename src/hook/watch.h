/* SPDX-License-Identifier: Apache-2.0 */
/* Who is watched for stalls: with GPUFEED_LOG every process, else those that initialised CUDA. */
#ifndef GF_HOOK_WATCH_H
#define GF_HOOK_WATCH_H

#include "hook/idle.h"
#include "hook/thread.h"
#include "observe/stall.h"

/* After the first successful cuInit: opens the log and watches, if that was not done at birth. */
void gf_watch_cuda(void);

/* Runs a call of the driver's, timed. block is looked at after it: host memory, or NULL. */
#define GF_TIMED(kind, name, size, block, call)                                                    \
    ({                                                                                             \
        struct gf_stall_mark mark_;                                                                \
        gf_stall_begin(&mark_, kind, size);                                                        \
        const CUresult timed_ = (call);                                                            \
        gf_stall_end(&mark_, kind, name, size, timed_ == CUDA_SUCCESS ? (block) : NULL);           \
        timed_;                                                                                    \
    })

/*
 * The same for a call that waits for the GPU. is_idle: whether there is nothing to wait for, asked now
 * and then; whether such a call is a stall depends on it.
 */
#define GF_WAITED(kind, name, size, is_idle, call)                                                 \
    ({                                                                                             \
        struct gf_stall_mark mark_;                                                                \
        gf_stall_begin(&mark_, kind, size);                                                        \
        if (gf_unlikely(gf_stall_asks(&mark_, kind)) && !gf_thread.guard)                                \
            gf_stall_asked(&mark_, is_idle);                                                       \
        const CUresult timed_ = (call);                                                            \
        gf_stall_end(&mark_, kind, name, size, NULL);                                              \
        timed_;                                                                                    \
    })

/* On our thread, once the engine is published: a second one, which writes the log. */
void gf_watch_serve(void);

#endif
