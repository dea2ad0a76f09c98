/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA node of a block of memory. */
#ifndef GF_OS_PAGE_NODE_H
#define GF_OS_PAGE_NODE_H

#include "base/base.h"

/*
 * The node of most of up to 16 sampled pages; -1 if no sampled page is present or the kernel
 * refuses. Touches no page. One system call, 2 us; keeps errno. Any thread, even after the block
 * was unmapped.
 */
int gf_page_node(const void *block, size_t size);

#endif
