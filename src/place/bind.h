/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying a verdict out: the masks of this process's threads and of the descendants that were born
 * before it. Idempotent; linear in threads (200 in under 20 ms).
 */
#ifndef GF_PLACE_BIND_H
#define GF_PLACE_BIND_H

#include "base/cpus.h"

#include <sys/types.h>

struct gf_bind_scope {
    struct gf_cpus from; /* only threads whose mask equals this are changed: the start mask, or ours when widening */
    struct gf_cpus to;
    /* Threads to leave alone, and how to count them; NULL: all are the program's. */
    bool (*skip)(void *closure, pid_t tid);
    void *closure;
    bool descendants; /* also those that have no libcuda of their own and still have mask `from` */
    /*
     * When this process initialised CUDA (gf_tasks_now); 0: it has not. Children forked since
     * have its libcuda mapped and can never use it: they are workers like any others.
     */
    uint64_t cuda_since;
};

struct gf_bind_result {
    unsigned bound;       /* threads of this process that now have `to`, read back */
    unsigned left;        /* threads with another mask, or skipped */
    unsigned failed;      /* threads that could not be set or did not read back */
    unsigned descendants; /* threads of descendants that were bound */
    int error;            /* the last errno */
    unsigned usec;
};

/* Loops until a pass finds no new thread. Any thread; allocates nothing. */
void gf_bind_apply(const struct gf_bind_scope *scope, struct gf_bind_result *ret);

#endif
