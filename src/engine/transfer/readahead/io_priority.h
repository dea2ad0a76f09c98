/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O priority of threads. A helper reads with the I/O priority of the thread for which it
 * reads.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_IO_PRIORITY_H
#define GF_ENGINE_TRANSFER_READAHEAD_IO_PRIORITY_H

#include "base/base.h"

#define GF_IO_PRIORITY_UNKNOWN (-1)

/*
 * Returns the calling thread's I/O priority. If none was set for the thread, returns the priority
 * that the kernel derives from the thread's scheduling policy and nice value. Keeps errno.
 */
int gf_io_priority_get(void);

/*
 * Whether any thread may give itself this I/O priority. The real-time class needs a capability.
 * False also for GF_IO_PRIORITY_UNKNOWN.
 */
bool gf_io_priority_is_for_all(int priority);

/* Whether this is the I/O priority that an ordinary thread has, and so a helper. */
bool gf_io_priority_is_ordinary(int priority);

/*
 * Gives the calling helper this I/O priority, until it calls gf_io_priority_restore. False: the
 * kernel refuses, and the priority is unchanged. Both keep errno.
 */
bool gf_io_priority_set(int priority);
void gf_io_priority_restore(void);

#endif
