/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a range of a file on several threads: the caller and helpers, which read pieces by pread
 * through the program's own descriptor.
 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_SHARED_READ_H
#define GF_ENGINE_TRANSFER_IMPORTS_SHARED_READ_H

#include "base/base.h"

#include <sys/types.h>

/*
 * Reads at most `bytes` bytes of the file `fd` at `offset` to `to`. Returns how many bytes at the
 * start of the range were read. The caller reads the others, and so gets the result and the errno
 * that the kernel gives for them. Bytes behind the returned ones may have been written, too.
 *
 * Returns 0 if the library does not share this read: no helper runs, the process is sealed
 * (os/permit.h), the descriptor is not open for reading or has O_DIRECT, or it is no regular file
 * on a file system of this machine. The descriptor's offset stays unchanged. May change errno.
 * Handlers of signals may run during the call, and must return.
 */
size_t gf_shared_read(int fd, char *to, size_t bytes, off_t offset);

/* Identifies a file. */
struct gf_shared_file {
    dev_t device;
    ino_t inode;
};

/*
 * Returns how many bytes gf_shared_read would read now if all pieces succeed, and sets *ret_file
 * unless it returns 0.
 */
size_t gf_shared_read_most(int fd, size_t bytes, off_t offset, struct gf_shared_file *ret_file);

/* Whether the descriptor is that file. */
bool gf_shared_read_is_file(int fd, const struct gf_shared_file *file);

#endif
