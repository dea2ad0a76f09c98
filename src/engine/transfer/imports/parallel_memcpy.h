/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_TRANSFER_IMPORTS_PARALLEL_MEMCPY_H
#define GF_ENGINE_TRANSFER_IMPORTS_PARALLEL_MEMCPY_H

#include "engine/transfer/stats.h"

/*
 * A memcpy for libraries that copy into pinned memory (imports.h). The copied bytes and the faults
 * are the same as with libc's memcpy, and errno is kept. Several threads copy if the target is
 * pinned memory, the ranges are disjoint, and the copy is large. May be called on any thread.
 */
void *gf_parallel_memcpy(void *to, const void *from, size_t bytes);

/* Sets the members `calls` and `bytes`. */
void gf_parallel_memcpy_count(struct gf_import_count *ret);

#endif
