/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of pinned memory by the NUMA node of their pages, for the report. */
#ifndef GF_ENGINE_TRANSFER_STATS_NODE_BYTES_H
#define GF_ENGINE_TRANSFER_STATS_NODE_BYTES_H

#include "base/base.h"

/* the index for unknown nodes, and for nodes with higher numbers */
#define GF_NODE_BYTES_UNKNOWN 64
#define GF_NODE_BYTES_COUNT (GF_NODE_BYTES_UNKNOWN + 1)

/* `node` is -1 if it is not known. */
static inline void gf_node_bytes_add(uint64_t bytes_on[GF_NODE_BYTES_COUNT], int node,
                                     uint64_t bytes)
{
    bytes_on[node >= 0 && node < GF_NODE_BYTES_UNKNOWN ? node : GF_NODE_BYTES_UNKNOWN] += bytes;
}

#endif
