/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/engine_api.h"

#include <pthread.h>

/*
 * A hash table with the class of each thread, by thread id. The table has a fixed size, and needs
 * no lock and no allocation. A thread without an entry is an ordinary thread of the program. Once
 * the table has overflowed, threads without an entry count as gf_thread_self_set, so they are not
 * bound. The functions keep errno. They may be called on any thread, also in a signal handler.
 */

/* gf_preload.thread_class */
enum gf_thread_class gf_thread_class_get(pid_t tid);

/* Whether any thread ever had an entry. */
bool gf_thread_class_used(void);

/*
 * Records that the program changed tid's mask from `before` to `after`. From then on the library
 * does not bind the thread. The library may bind the thread again after the program has restored
 * the mask from before the first change, because some libraries change a mask only for a while.
 * Threads of the driver and of this library keep their class.
 */
void gf_thread_class_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after);

/*
 * Like the original pthread_create, but also records the class of the new thread. If `on_start` is
 * not NULL, the new thread calls it before `run`. Keeps errno. Any thread may call this.
 */
int gf_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
                    enum gf_thread_class class, void (*on_start)(void));

/* gf_preload.start_thread */
int gf_thread_start_own(void *(*run)(void *), void *arg);
