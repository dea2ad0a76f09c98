/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_pinned.h"

#include "base/fmt.h"

static void put_calls(struct gf_json *json, const char *key, uint64_t calls, uint64_t bytes)
{
    gf_json_begin(json, key, '{');
    gf_json_size(json, "calls", calls);
    gf_json_size(json, "bytes", bytes);
    gf_json_end(json, '}');
}

static void put_large(struct gf_json *json, const struct gf_pinned_stats *stats)
{
    gf_json_begin(json, "large", '{');
    gf_json_size(json, "calls", stats->large_calls);
    gf_json_size(json, "bytes", stats->large_bytes);
    gf_json_milli(json, "duration_s", stats->large_ns / 1000000);
    gf_json_end(json, '}');
}

void gf_report_pinned_put_nodes(struct gf_json *json, const char *key,
                                const uint64_t bytes[GF_NODE_BYTES_COUNT])
{
    char name[16];

    gf_json_begin(json, key, '{');
    for (unsigned node = 0; node < GF_NODE_BYTES_COUNT; node++) {
        if (!bytes[node])
            continue;
        gf_fmt(name, sizeof(name), node == GF_NODE_BYTES_UNKNOWN ? "unknown" : "%u", node);
        gf_json_size(json, name, bytes[node]);
    }
    gf_json_end(json, '}');
}

void gf_report_pinned_put(struct gf_json *json, const struct gf_pinned_stats *stats,
                          const struct gf_transfer_state *state)
{
    gf_json_begin(json, "pinned_memory", '{');
    put_large(json, stats);
    put_calls(json, "small", stats->small_calls, stats->small_bytes);
    gf_json_begin(json, "reasons", '{');
    for (unsigned reason = 0; reason < GF_PINNED_REASONS; reason++)
        if (stats->driver_calls[reason])
            put_calls(json, gf_pinned_reason_name(reason), stats->driver_calls[reason],
                      stats->driver_bytes[reason]);
    gf_json_end(json, '}');
    put_calls(json, "prefaulted", stats->placed_calls, stats->placed_bytes);
    gf_json_size(json, "cached_bytes", state->pinned_kept);
    gf_json_size(json, "trims", stats->trims);
    gf_report_pinned_put_nodes(json, "in_use_by_node", state->pinned_held);
    gf_json_end(json, '}');
}
