/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc's lock of the list of open FILEs. libc's fork takes it after all fork handlers. A thread
 * that holds it, as in fflush(NULL), may wait for a FILE that another thread has locked while it is
 * in malloc. So a fork takes the lock of the list before it closes the heap to other threads, as
 * glibc takes it before the locks of its own malloc.
 *
 * The lock is recursive: libc takes it again during the fork. Nothing here allocates. Where libc
 * does not export the lock, these functions do nothing.
 */
#ifndef GF_PRELOAD_HEAP_STREAM_LIST_H
#define GF_PRELOAD_HEAP_STREAM_LIST_H

/* Called before the fork, by a thread that holds no lock of the heap. */
void gf_stream_list_lock(void);

/* Called after the fork, in the parent. */
void gf_stream_list_unlock(void);

/*
 * Called in the child. Initializes the lock. libc has already done so if the process had threads
 * when the fork began. An unlock would release a lock that is free, and leave it held forever.
 */
void gf_stream_list_reset(void);

#endif
