/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a verdict: sets the masks of this process's threads, and of the threads of its child
 * processes. A second call with the same scope changes nothing. The time grows linearly with the
 * number of threads: 200 threads take less than 20 ms.
 */
#pragma once

#include "base/cpus.h"

struct gf_bind_scope {
    struct gf_cpus from; /* only threads with this mask are changed */
    struct gf_cpus to;
    /* Returns true for a thread that must not be changed. NULL: all threads may be changed. */
    bool (*skip)(void *closure, pid_t tid);
    /*
     * Returns true for a thread of the library: its mask is set, but it is counted in `left`. NULL:
     * no thread is of the library.
     */
    bool (*uncounted)(void *closure, pid_t tid);
    void *closure;
    /* Also bind threads of child processes that have not loaded libcuda themselves. */
    bool descendants;
    /*
     * The time when this process initialised CUDA (gf_tasks_now); 0 if it has not. A child that was
     * forked later has libcuda mapped, but cannot use it. So it is bound like other workers.
     */
    uint64_t cuda_since;
};

struct gf_bind_result {
    /* Threads of this process whose mask is `to`, as read back from the kernel. */
    unsigned bound;
    /* Threads with another mask, threads that were skipped, and threads of the library. */
    unsigned left;
    /* Threads whose mask could not be set, or differs from `to` when read back. */
    unsigned failed;
    unsigned descendants; /* threads of child processes that were bound */
    int error;            /* errno of the last failure */
    unsigned usec;
};

/*
 * Sets the masks in several passes over all threads, until a pass changes no mask. May be called on
 * any thread. Allocates nothing and keeps errno.
 */
void gf_bind_apply(const struct gf_bind_scope *scope, struct gf_bind_result *ret);
