/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA node of a block of memory. */
#ifndef GF_OS_PAGE_NODE_H
#define GF_OS_PAGE_NODE_H

#include "base/base.h"

/*
 * Samples up to 16 pages of the block, and returns the node of most of them. -1 if no sampled page
 * is present, or if the kernel refuses. Touches no page, so the block may be unmapped. One system
 * call, 2 us. Any thread; keeps errno.
 */
int gf_page_node(const void *block, size_t size);

#endif
