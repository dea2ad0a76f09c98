/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a verdict: sets the masks of this process's threads, and of child processes forked
 * earlier. Idempotent. Linear in threads: 200 threads take less than 20 ms.
 */
#ifndef GF_ENGINE_PLACE_BIND_H
#define GF_ENGINE_PLACE_BIND_H

#include "base/cpus.h"

#include <sys/types.h>

struct gf_bind_scope {
    struct gf_cpus from; /* only threads with this mask are changed */
    struct gf_cpus to;
    /* True for threads that must not be changed. NULL: all threads may be changed. */
    bool (*skip)(void *closure, pid_t tid);
    /* True for threads of the library: they are changed, but counted as left. NULL: none. */
    bool (*uncounted)(void *closure, pid_t tid);
    void *closure;
    bool descendants; /* also bind threads of child processes that have no libcuda of their own */
    /*
     * When this process initialised CUDA (gf_tasks_now); 0 if it has not. Children forked later
     * have its libcuda mapped but cannot use it, so they are bound like other workers.
     */
    uint64_t cuda_since;
};

struct gf_bind_result {
    unsigned bound;       /* threads of this process whose mask is `to`, read back */
    unsigned left;        /* threads with another mask, skipped ones, and the library's */
    unsigned failed;      /* threads whose mask could not be set, or reads back otherwise */
    unsigned descendants; /* threads of child processes that were bound */
    int error;            /* the last errno */
    unsigned usec;
};

/* Repeats until a pass changes nothing. Any thread; allocates nothing; keeps errno. */
void gf_bind_apply(const struct gf_bind_scope *scope, struct gf_bind_result *ret);

#endif
