/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * A memcpy for libraries that copy into pinned memory (imports.h). The copied bytes and the faults
 * are the same as with libc's memcpy, and errno is kept. Several threads copy if the target is
 * pinned memory, the ranges are disjoint, and the copy is large. May be called on any thread.
 */
void *gf_parallel_memcpy(void *to, const void *from, size_t bytes);

struct gf_context;

/*
 * Notice that the driver has pinned memory in the current context, that the program is about to free
 * or unregister it, and that a context has ended. `flags`: those of the program's call. Memory that is
 * not cached is ignored. The first one makes CUDA calls. May be called on any thread.
 */
void gf_memcpy_pinned(const void *at, size_t bytes, unsigned flags);
void gf_memcpy_unpinned(const void *at);
void gf_memcpy_end(struct gf_context *context);

/*
 * Functions of libc that read files, for libraries that load models (imports.h). Several threads
 * read if the read is large (shared_read.h). Results, errno, bytes and offsets are the same as with
 * libc's functions. May be called on any thread.
 */

ssize_t gf_parallel_read(int fd, void *to, size_t bytes);
ssize_t gf_parallel_pread(int fd, void *to, size_t bytes, off_t offset);
