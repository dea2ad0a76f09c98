/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's system calls: made by number (another library's mmap may allocate), with errno kept
 * (glibc's free keeps it, and saving it around free would cost the fast path), each new mapping
 * given its node and written down.
 */
#ifndef GF_HEAP_SYSTEM_H
#define GF_HEAP_SYSTEM_H

#include "heap/heap.h"

#include <sys/types.h>

/* jemalloc calls these by these names: jemalloc.syms. */
void *gf_heap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int gf_heap_munmap(void *address, size_t size);
int gf_heap_madvise(void *address, size_t size, int advice);
int gf_heap_mprotect(void *address, size_t size, int protection);

/* Once, before jemalloc registers its own handlers: our lock is the innermost at a fork. */
void gf_system_init(void);

/* Whether so much more can be mapped: limits of the process (ulimit -v, -d), strict overcommit. */
bool gf_system_has_room(size_t size);

void gf_system_set_node(int policy, const struct gf_nodes *nodes);
uint64_t gf_system_refused(void);
int gf_system_refused_errno(void);
size_t gf_system_ranges(struct gf_range *ret, size_t cap);

/* The i-th of them now; false beyond the last. */
bool gf_system_range(size_t i, struct gf_range *ret);

/* Bytes mapped now, jemalloc's own tables included. */
uint64_t gf_system_mapped(void);
/* So far: advised free, but still there; and gone (unmapped, or advised away). */
uint64_t gf_system_lent(void);
uint64_t gf_system_given_back(void);

#endif
