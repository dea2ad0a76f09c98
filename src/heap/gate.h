/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fork may wait for in place of taking each of jemalloc's locks: that nobody holds one of them, nor takes
 * one until the fork has happened. Taking a lock of jemalloc's means to pass the gate, giving it back to leave.
 * A lock within a lock passes always, so that who is inside comes out again; for the same reason nobody inside may wait
 * for anything but those locks. Nothing here allocates or changes errno.
 */
#ifndef GF_HEAP_GATE_H
#define GF_HEAP_GATE_H

#include "base/base.h"

#include <pthread.h>
#include <time.h>

/*
 * jemalloc calls these by these names: jemalloc.syms. They answer as those of pthread do. Passing is two looks and a
 * store to the thread's own line, leaving a store and a look, whether the gate may be closed or not.
 */
int gf_heap_mutex_lock(pthread_mutex_t *mutex);
int gf_heap_mutex_trylock(pthread_mutex_t *mutex); /* EBUSY also while the gate is closed */
int gf_heap_mutex_unlock(pthread_mutex_t *mutex);
int gf_heap_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex); /* outside while it waits */
int gf_heap_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

/*
 * From now on the gate can be closed, which has the kernel interrupt the CPUs that run threads of this process
 * (membarrier(2), private expedited). Takes milliseconds in a process of several threads. Refused, nothing changes.
 */
void gf_gate_allow(void);

/*
 * From close to open the calling thread is the only one inside, and may take locks. Waits for those inside,
 * and for others that have closed it. False at once: it cannot be closed. Not to be called inside: would wait for
 * ever, as for a lock that one holds.
 */
bool gf_gate_close(void);
void gf_gate_open(void);

/* Passing and leaving without a lock: a fork that closes the gate waits for who is in between. */
void gf_gate_enter(void);
void gf_gate_leave(void);

/* In a forked child that has one thread, in place of open, and where it was not closed: nobody is inside. */
void gf_gate_in_child(void);

/* The thread ends. What it does behind this is a little dearer. */
void gf_gate_forget(void);

#endif
