/* SPDX-License-Identifier: Apache-2.0 */
/* What the door knows about the calling thread; all zero in a new one. */
#ifndef GF_HOOK_THREAD_H
#define GF_HOOK_THREAD_H

#include "base/base.h"

#include <pthread.h>

struct gf_thread {
    unsigned guard;     /* inside the library: hooks pass through */
    unsigned in_driver; /* inside cuInit or the making of a context, where libcuda makes threads */
    unsigned counters;  /* its set of them (hook/counters.h); 0: none yet */
    bool ours;          /* our one thread, or made by it or by a library of ours */
};

/* In the static TLS block: reaching it never allocates. */
extern __thread struct gf_thread gf_thread __attribute__((tls_model("initial-exec")));

/*
 * Around calls into the engine, which opens, reads and writes: a hook is no cancellation point where
 * the original is none, and a thread that is cancelled must not end inside.
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
