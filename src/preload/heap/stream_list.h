/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's lock of its list of open FILEs. libc's fork takes this lock after it has run all fork
 * handlers. The holder of the lock, such as fflush(NULL), may wait for a FILE that another thread
 * has locked while that thread is in malloc. To avoid a deadlock, a fork takes this lock before it
 * closes the heap to other threads. glibc's fork does the same before it locks glibc's malloc.
 *
 * The lock is recursive: libc takes it again during the fork. These functions do not allocate. If
 * libc does not export the lock, they do nothing.
 */
#ifndef GF_PRELOAD_HEAP_STREAM_LIST_H
#define GF_PRELOAD_HEAP_STREAM_LIST_H

/* Called before the fork, by a thread that holds no lock of the heap. */
void gf_stream_list_lock(void);

/* Called after the fork, in the parent. */
void gf_stream_list_unlock(void);

/*
 * Called in the child. Initializes the lock. Unlocking it would be wrong. If the process had
 * several threads, libc has already initialized the lock, and unlocking a free lock would leave it
 * held forever.
 */
void gf_stream_list_reset(void);

#endif
