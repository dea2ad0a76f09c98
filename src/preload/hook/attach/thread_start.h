/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads, and records their class before their start routine runs. */
#ifndef GF_PRELOAD_HOOK_ATTACH_THREAD_START_H
#define GF_PRELOAD_HOOK_ATTACH_THREAD_START_H

#include "abi/engine_api.h"

#include <pthread.h>

/*
 * Like the original pthread_create, but also records the class of the new thread. If `on_start` is
 * not NULL, the new thread calls it before `run`. Keeps errno. Any thread may call this.
 */
int gf_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
                    enum gf_thread_class class, void (*on_start)(void));

/* Starts a detached thread of this library, with all signals blocked. Returns an errno value. */
int gf_thread_start_own(void *(*run)(void *), void *arg);

#endif
