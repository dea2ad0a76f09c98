/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the heap's locks around a fork, and keeps registrations of fork handlers apart from forks. */
#pragma once

#include <pthread.h>

/* jemalloc calls these in place of pthread's functions (jemalloc.syms). The results are the same. */
int gf_heap_mutex_lock(pthread_mutex_t *mutex);
int gf_heap_mutex_trylock(pthread_mutex_t *mutex);
int gf_heap_mutex_unlock(pthread_mutex_t *mutex);

/* jemalloc calls this in place of pthread_atfork (jemalloc.syms). The result is the same. */
int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/*
 * Called before and after a libc call that registers fork handlers. A fork waits for registrations
 * in progress, and a registration waits for a fork in progress. Pairs of these calls may be nested.
 * May be called on any thread that holds no lock of the heap. Has no effect until jemalloc has
 * registered its handlers.
 */
void gf_fork_registration_begin(void);
void gf_fork_registration_end(void);

/*
 * Stores the arguments of a __register_atfork call that comes before the loader has relocated this
 * object. Only one thread may call this. After eight calls, it returns ENOMEM.
 */
int gf_fork_keep_early(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                       void *object);

/*
 * Registers the stored handlers by __register_atfork. Called once, after the heap has registered
 * its own handlers.
 */
void gf_fork_register_early(void);
