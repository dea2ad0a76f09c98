/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the NUMA node of a block of memory. */
#ifndef GF_OS_PAGE_NODE_H
#define GF_OS_PAGE_NODE_H

#include "base/base.h"

/*
 * Samples up to 16 pages of the block, and returns the node on which most of these pages are.
 * Returns -1 if no sampled page is present, or if the kernel refuses the query. Accesses no page,
 * so the block may be unmapped. Makes one system call, which takes 2 us. May be called on any
 * thread. Keeps errno.
 */
int gf_page_node(const void *block, size_t size);

#endif
