/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a range of a file on several threads: the caller and helpers, which read pieces by pread
 * through the program's own descriptor.
 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_SHARED_READ_H
#define GF_ENGINE_TRANSFER_IMPORTS_SHARED_READ_H

#include "base/base.h"

#include <sys/types.h>

struct gf_pool;

/* Identifies a file. */
struct gf_shared_file {
    dev_t device;
    ino_t inode;
};

/* A read for which helpers are reserved. */
struct gf_shared_plan {
    struct gf_pool *pool;
    unsigned helpers; /* how many helpers are reserved */
    int io_priority;  /* the caller's */
    struct gf_shared_file file;
    size_t bytes; /* how many of the requested bytes the file has now */
};

/*
 * Plans a read of at most `bytes` bytes of the file `fd` at `offset`. True: the caller must call
 * gf_shared_read or gf_shared_read_drop. False: the library does not share this read, because no
 * helper is free, the process is sealed (os/permit.h), the descriptor is not open for reading or has
 * O_DIRECT, or it is no regular file on a file system of this machine. The descriptor's offset stays
 * unchanged. May change errno.
 */
bool gf_shared_read_plan(int fd, size_t bytes, off_t offset, struct gf_shared_plan *ret);
void gf_shared_read_drop(const struct gf_shared_plan *plan);

/*
 * Reads plan->bytes bytes at `offset`, which may differ from the planned offset. Returns how many
 * bytes at the start of the range were read. Bytes behind these may have been written, too. The
 * descriptor's offset stays unchanged. Ends the plan. The caller must not be cancelled during the
 * call. Handlers of signals may run during the call, and must return. May change errno.
 */
size_t gf_shared_read(const struct gf_shared_plan *plan, int fd, char *to, off_t offset);

/* Whether the descriptor is that file. */
bool gf_shared_read_is_file(int fd, const struct gf_shared_file *file);

#endif
