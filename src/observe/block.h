/* SPDX-License-Identifier: Apache-2.0 */
/* On which NUMA node a block lies. */
#ifndef GF_OBSERVE_BLOCK_H
#define GF_OBSERVE_BLOCK_H

#include "base/base.h"

/*
 * The node of most of the pages that were asked about, some of the block's; -1 where none of them is
 * present, or the kernel does not say. A page is neither touched nor kept from leaving. By one system
 * call, 2 us; keeps errno. Any thread, whatever has become of the block.
 */
int gf_block_node(const void *block, size_t size);

#endif
