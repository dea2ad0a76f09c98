/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libc that read files, for libraries that load models (imports.h). Several threads
 * read if the read is large (shared_read.h). Results, errno, bytes and offsets are the same as with
 * libc's functions. May be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_PARALLEL_READ_H
#define GF_ENGINE_TRANSFER_IMPORTS_PARALLEL_READ_H

#include "engine/transfer/stats.h"

#include <sys/types.h>

ssize_t gf_parallel_read(int fd, void *to, size_t bytes);
ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset);

/* Sets the members `calls` and `bytes`. */
void gf_parallel_read_count(struct gf_import_count *ret);

#endif
