/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA node of an address range. May be called on any thread. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_RANGE_NODE_H
#define GF_ENGINE_TRANSFER_MEMORY_RANGE_NODE_H

#include "base/base.h"

/*
 * Returns the node of a sample of the range's pages; -1 if these pages are on several nodes or the
 * query fails.
 */
int gf_range_node_read(const void *at, size_t bytes);

#endif
