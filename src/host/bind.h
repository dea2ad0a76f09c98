/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a verdict: sets the masks of this process's threads, and of the threads of its child
 * processes. A second call with the same scope changes nothing. The time grows linearly with the
 * number of threads: 200 threads take less than 20 ms.
 */
#pragma once

#include "base/cpus.h"
#include "host/locality.h"

struct gf_bind_scope {
    struct gf_cpus from; /* only threads with this mask are changed */
    struct gf_cpus to;
    /*
     * Returns the class of a thread; NULL: each is one of the program. A thread that set its own mask
     * is not changed. The mask of the library's threads is set, but they are counted in `left`.
     */
    enum gf_thread_class (*owner)(pid_t tid);
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
