/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs that the calling thread runs now. A handler of a signal may interrupt the thread and fork.
 * In the child, which has no helpers, each of these jobs then ends as if its first piece had failed.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_RUNNING_H
#define GF_ENGINE_TRANSFER_POOL_RUNNING_H

#include <pthread.h>

struct gf_job;

struct gf_running {
    struct gf_job *job;
    pthread_mutex_t *lock;    /* the pool's, which another thread may hold at the fork */
    struct gf_running *outer; /* the call that a handler of a signal has interrupted */
};

void gf_running_begin(struct gf_running *run);
void gf_running_end(const struct gf_running *run);

/* Called in a forked child. */
void gf_running_in_child(void);

#endif
