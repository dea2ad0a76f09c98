/* SPDX-License-Identifier: Apache-2.0 */
/* A gate blocks a stream until the program opens it. */
#ifndef GATE_H
#define GATE_H

#include "stage.h"

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reached, open;
};

static inline void CUDA_CB stand(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline struct gate *close_gate(CUstream s)
{
    struct gate *gate = calloc(1, sizeof *gate);
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    ok(cuLaunchHostFunc(s, stand, gate));
    pthread_mutex_lock(&gate->lock);
    while (!gate->reached)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return gate;
}

static inline void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

#endif
