/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O priority of threads: a helper reads with that of the thread for which it reads. */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_IO_PRIORITY_H
#define GF_ENGINE_TRANSFER_READAHEAD_IO_PRIORITY_H

#include "base/base.h"

#define GF_IO_PRIORITY_UNKNOWN (-1)

/*
 * The calling thread's I/O priority. If it has none of its own, the one that the kernel derives from
 * its scheduling. Keeps errno.
 */
int gf_io_priority_get(void);

/* Gives a helper this priority. False: the kernel refuses. Keeps errno. */
bool gf_io_priority_set(int priority);

#endif
