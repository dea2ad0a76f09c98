/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of doubtful addresses; nodes of pages. */
#pragma once

#include "base/base.h"

/*
 * Reads memory of this process at addresses that may be unmapped, without causing a signal. The
 * functions make only system calls. They may be called on any thread, also inside malloc.
 */

/*
 * If process_vm_readv is forbidden, opens /proc/thread-self/mem, which later reads use instead.
 * Called after gf_permit_find, when the log starts and within cuInit (os/files.h).
 */
void gf_safe_read_start(void);

/* Copies bytes up to the first unreadable byte. Returns the number of bytes copied. Keeps errno. */
size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size);

/* Copies `size` bytes. Returns true if all of them were readable. */
static inline bool gf_safe_read(uintptr_t address, void *ret, size_t size)
{
    return gf_safe_read_some(address, ret, size) == size;
}

/*
 * Sets ret_status to the node of the page at each address; negative: no page is present. Returns false
 * if the kernel refuses the query. Page faults of the process may wait meanwhile, so `count` should be
 * at most 64. May be called on any thread. Keeps errno.
 */
bool gf_pages_query(void **pages, unsigned count, int *ret_status);

/*
 * Samples up to 16 pages of the block, and returns the node on which most of these pages are.
 * Returns -1 if no sampled page is present, or if the kernel refuses the query. Accesses no page,
 * so the block may be unmapped. Makes one system call, which takes 2 us. May be called on any
 * thread. Keeps errno.
 */
int gf_page_node(const void *block, size_t size);
