/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * Decides whether the library may read pages of a file before the program needs them. It may if the
 * file is on a disk of this machine, and if no limit of the process's control groups restricts
 * reading or the page cache.
 */

/*
 * Whether this holds for files on the device with these numbers, as in /proc/self/maps. `root`: as
 * in os/procfs.h. Opens files, so a hook calls this function only if the library has no own thread.
 * May change errno.
 */
bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor);

/*
 * The I/O priority of threads. A helper reads with the I/O priority of the thread for which it
 * reads.
 */

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

/*
 * Read-ahead: while a copy reads a mapped file, helpers make the kernel read the file's next pages
 * into the page cache. They call MADV_WILLNEED on the program's own mapping. Helpers change no byte
 * and no mapping, and open no file. The kernel may still read after the call has returned.
 *
 * When the copy returns, no helper is inside such a call. So no such call is in progress during a
 * later munmap, mremap, or mmap with MAP_FIXED, and no reference to the file outlives the mapping.
 * During the copy the program must keep the mapping, because the copy reads it.
 */

/*
 * Begins read-ahead for a copy of this memory. Returns a number that identifies this read-ahead for
 * the functions below. Returns 0 if nothing is read ahead: the option is off, no helper runs, the
 * memory is not in one mapping of a suitable file, or too many copies already use read-ahead.
 * Called on the thread that copies.
 */
unsigned gf_readahead_begin(const void *at, size_t bytes);

/*
 * Called when the copy has read its first `bytes` bytes, or is about to read them. Lets helpers
 * read further ahead.
 */
void gf_readahead_advance(unsigned readahead, size_t bytes);

/*
 * Ends read-ahead. Waits for calls of madvise that helpers have begun. If `readahead` is 0, does
 * nothing.
 */
void gf_readahead_end(unsigned readahead);

/* Looks up for which file systems read-ahead is allowed. Called on the library's own thread. */
void gf_readahead_prepare(void);
