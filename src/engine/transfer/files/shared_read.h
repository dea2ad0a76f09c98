/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * The process in which helpers work for replaced functions. A forked child inherits the replaced
 * pointers, but has no helpers.
 */

/* Makes the calling process the owner. */
void gf_import_owner_set(void);

/* Called in a forked child: no process is the owner. */
void gf_import_owner_forked(void);

/* Whether the calling process is the owner. May be called on any thread; keeps errno. */
bool gf_import_owner_is_here(void);

/*
 * A call of pread or read that several helpers make for the calling thread. They take the open file
 * once into their own descriptor table, so each byte is of the file that the descriptor was then,
 * even if another thread replaces or closes the descriptor.
 */

#define GF_AT_OFFSET ((off_t)-1) /* at the descriptor's offset, which the call advances */

/*
 * Makes the call. False: the call is not shared, and nothing was read, because
 * - too few helpers are free, or they have no descriptor table of their own,
 * - the kernel refuses to take the file, or the thread has its own descriptor table (os/files.h),
 * - the descriptor is not open for reading or has O_DIRECT, or it is no regular file on a file
 *   system of this machine, or fewer bytes are left in the file than are worth sharing.
 * True: *ret is the result of the call, errno is set if it is negative, and *ret_shared is the number
 * of bytes that the helpers have read. Bytes behind the result may have been written, too.
 *
 * The caller must not be cancelled during the call. Handlers of signals may run during the call, and
 * must return. May change errno.
 */
bool gf_shared_read(int fd, char *to, size_t bytes, off_t offset, ssize_t *ret, size_t *ret_shared);
