/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fork gate quiesces the heap before a fork: it waits until no thread holds a lock of jemalloc,
 * and then prevents threads from taking such a lock until the fork is done. So the fork itself need
 * not take all locks.
 *
 * A thread enters the gate before it takes a lock of jemalloc, and leaves it after it has released
 * the lock. A thread inside the gate must be able to leave it in the end. So it may always enter
 * again, and it may wait only for locks of jemalloc. No function here allocates or changes errno.
 */
#ifndef GF_PRELOAD_HEAP_FORK_GATE_H
#define GF_PRELOAD_HEAP_FORK_GATE_H

#include "base/base.h"

#include <pthread.h>
#include <time.h>

/*
 * jemalloc calls these functions in place of pthread's (jemalloc.syms). They return the same
 * results as pthread's functions. Entering costs two loads and a store to the thread's own cache
 * line; leaving costs a store and a load.
 */
int gf_heap_mutex_lock(pthread_mutex_t *mutex);
int gf_heap_mutex_trylock(pthread_mutex_t *mutex); /* also returns EBUSY while the gate is closed */
int gf_heap_mutex_unlock(pthread_mutex_t *mutex);
/* The thread is outside the gate while it waits. */
int gf_heap_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int gf_heap_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until);

/*
 * Allows the gate to be closed. Registers the process for membarrier(2), private expedited, which
 * takes milliseconds in a process with several threads. If the kernel refuses, the gate stays open.
 */
void gf_fork_gate_allow(void);

/*
 * Closes the gate, and waits until all threads inside have left it. If another thread has closed
 * the gate, first waits until that thread opens it. Until gf_fork_gate_open, the caller is the only
 * thread inside, and may take locks. Returns false, with the gate open, if gf_fork_gate_allow has
 * not succeeded or membarrier fails. The caller must not be inside the gate, because this function
 * would then wait for the caller itself.
 */
bool gf_fork_gate_close(void);
void gf_fork_gate_open(void);

/*
 * Enter and leave the gate without taking a lock. Pairs of these calls may be nested. The lock
 * functions above may be called between enter and leave.
 */
void gf_fork_gate_enter(void);
void gf_fork_gate_leave(void);

/* Whether the calling thread, or the code that this signal handler interrupted, is inside. */
bool gf_fork_gate_inside(void);

/*
 * Called in a forked child, instead of gf_fork_gate_open, even if the gate was not closed. Opens
 * the gate, and marks it as empty.
 */
void gf_fork_gate_in_child(void);

/*
 * Frees the slot of the calling thread, which is about to end. Later calls of this thread cost
 * more.
 */
void gf_fork_gate_forget(void);

/*
 * Sets whether the calling thread may take a slot. A thread must not take a slot if it may end
 * without a call of gf_fork_gate_forget, which frees the slot. A thread that has a slot keeps it.
 */
void gf_fork_gate_use_slot(bool possible);

#endif
