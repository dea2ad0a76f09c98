/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks know about a thread. All members are zero in a new thread. */
#ifndef GF_PRELOAD_HOOK_HOOK_THREAD_H
#define GF_PRELOAD_HOOK_HOOK_THREAD_H

#include "base/base.h"

#include <pthread.h>

struct gf_thread {
    unsigned guard; /* nonzero inside this library, where hooks pass through */
    /* Nonzero inside cuInit or context creation, where libcuda starts threads. */
    unsigned in_driver;
    /* Number of the thread's counter set (hook/counters.h); 0 before it has one. */
    unsigned counters;
    bool ours; /* started by this library, or by a thread that is `ours` */
};

/* The variable is in the static TLS block, so that an access never allocates. */
extern __thread struct gf_thread gf_thread __attribute__((tls_model("initial-exec")));

/*
 * Disables cancellation around a call into the engine. The engine calls open, read and write, which
 * are cancellation points. A hook must not be a cancellation point unless the original function is
 * one, and a thread must not end inside the engine.
 */
static inline int gf_thread_hold_cancel(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void gf_thread_release_cancel(int before)
{
    pthread_setcancelstate(before, NULL);
}

#endif
