/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the object "pinned_memory" in the report's section "transfers". */
#ifndef GF_ENGINE_REPORT_REPORT_PINNED_H
#define GF_ENGINE_REPORT_REPORT_PINNED_H

#include "base/json.h"
#include "engine/transfer/stats.h"

void gf_report_pinned_put(struct gf_json *json, const struct gf_pinned_stats *stats,
                          const struct gf_transfer_state *state);

/*
 * Writes an object with the numbers of bytes by node. The last element of `bytes` is the number of
 * bytes on several or unknown nodes.
 */
void gf_report_pinned_put_nodes(struct gf_json *json, const char *key,
                                const uint64_t bytes[GF_NODE_BYTES_COUNT]);

#endif
