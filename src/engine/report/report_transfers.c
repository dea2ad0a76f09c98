/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/sections.h"
#include "engine/transfer/stats.h"

static void put_timed(struct gf_json *json, const char *key, const struct gf_copy_counts *counts,
                      bool with_rate)
{
    gf_json_object(json, key);
    gf_json_size(json, "calls", counts->calls);
    gf_json_size(json, "bytes", counts->bytes);
    gf_json_milli(json, "duration_s", counts->timed_ns / 1000000);
    if (with_rate && counts->timed_ns)
        gf_json_milli(json, "gb_per_s", gf_transfer_sums_rate(counts));
}

static void put_pinned(struct gf_json *json, const struct gf_pinned_stats *stats,
                       const struct gf_transfer_state *state)
{
    const struct gf_copy_counts large = {
        .calls = stats->large_calls, .bytes = stats->large_bytes, .timed_ns = stats->large_ns};

    gf_json_object(json, "pinned_memory");
    put_timed(json, "large", &large, false);
    gf_json_numbers(json, "small", {"calls", stats->small_calls}, {"bytes", stats->small_bytes});
    gf_json_begin(json, "reasons", '{');
    for (unsigned reason = 0; reason < GF_PINNED_REASONS; reason++)
        if (stats->driver_calls[reason])
            gf_json_numbers(json, gf_pinned_reason_name(reason),
                            {"calls", stats->driver_calls[reason]},
                            {"bytes", stats->driver_bytes[reason]});
    gf_json_end(json, '}');
    gf_json_numbers(json, "prefaulted", {"calls", stats->placed_calls},
                    {"bytes", stats->placed_bytes});
    gf_json_size(json, "cached_bytes", state->pinned_kept);
    gf_json_size(json, "trims", stats->trims);
    gf_report_memory_put_nodes(json, "in_use_by_node", state->pinned_held, GF_NODE_BYTES_COUNT);
}

static void put_reasons(struct gf_json *json, const struct gf_copy_stats *copies,
                        enum gf_direction direction)
{
    gf_json_object(json, "reasons");
    for (unsigned why = 0; why < gf_bypass_count; why++) {
        const struct gf_copy_counts counts = gf_transfer_sums_bypassed(copies, direction, why);
        if (counts.calls && gf_copy_group(why) == gf_copy_group_driver)
            put_timed(json, gf_bypass_name(why), &counts, true);
    }
}

static void put_direction(struct gf_json *json, const char *key, const struct gf_copy_stats *copies,
                          enum gf_direction direction)
{
    struct gf_copy_counts ways[gf_copy_group_count];

    for (unsigned way = 0; way < gf_copy_group_count; way++)
        ways[way] = gf_transfer_sums_group(copies, direction, way);
    gf_json_object(json, key);
    put_timed(json, "staged", &ways[gf_copy_group_staged], true);
    gf_json_size(json, "inaccessible_bytes", copies->rest[direction].bytes);
    /*
     * No rate is written for pinned copies. An asynchronous pinned copy returns at once, so its
     * duration does not show the driver's speed.
     */
    put_timed(json, "pinned", &ways[gf_copy_group_pinned], false);
    put_timed(json, "driver", &ways[gf_copy_group_driver], true);
    put_reasons(json, copies, direction);
    put_timed(json, "other", &ways[gf_copy_group_other], false);
}

static void put_functions(struct gf_json *json, gf_hook_counts_fn *hook_counts)
{
    struct gf_small_copies sums = {0};
    struct gf_hook_counts counts;

    gf_json_begin(json, "by_function", '{');
    for (size_t i = 0; hook_counts(i, &counts); i++)
        if (gf_transfer_sums_add_hook(&sums, &counts))
            gf_json_numbers(json, counts.name, {"copies", counts.copies}, {"bytes", counts.bytes});
    gf_json_end(json, '}');
    gf_json_numbers(json, "small", {"copies", sums.small}, {"bytes", sums.small_bytes});
    gf_json_numbers(json, "unsupported", {"copies", sums.unsupported},
                    {"bytes", sums.unsupported_bytes});
}

static void put_state(struct gf_json *json, const struct gf_report_transfers *transfers)
{
    const struct gf_transfer_state *state = &transfers->state;

    gf_json_known_size(json, "min_bytes", transfers->min_bytes);
    gf_json_text(json, "staging_off", state->off);
    gf_json_begin(json, "ring", '{');
    gf_json_int(json, "rings", state->rings);
    gf_json_size(json, "bytes", state->ring_bytes);
    gf_json_size(json, "peak_bytes", state->ring_most);
    gf_json_size(json, "limit_bytes", state->ring_limit);
    gf_json_size(json, "grown", transfers->copies.ring_grown);
    gf_json_size(json, "shrunk", transfers->copies.ring_shrunk);
    gf_json_size(json, "stream_waits", transfers->copies.stream_waits);
    gf_report_memory_put_nodes(json, "by_node", state->ring_held, GF_NODE_BYTES_COUNT);
    gf_json_end(json, '}');
    gf_json_int(json, "helpers", state->helpers);
    gf_json_numbers(json, "held", {"calls", transfers->copies.holds.met},
                    {"waited_us", transfers->copies.holds.ns / 1000},
                    {"ended", transfers->copies.holds.ended});
}

static void put_files(struct gf_json *json, const struct gf_copy_stats *copies)
{
    const struct gf_readahead_count *ahead = &copies->readahead;
    const struct gf_import_count *memcpys = &copies->imports[gf_import_memcpy],
                                 *reads = &copies->imports[gf_import_read],
                                 *pins = &copies->imports[gf_import_pin];

    gf_json_numbers(json, "readahead", {"files", ahead->files}, {"advised_bytes", ahead->advised},
                    {"ahead_bytes", ahead->ahead}, {"used_bytes", ahead->used});
    gf_json_numbers(json, "parallel_memcpy", {"libraries", memcpys->libraries},
                    {"calls", memcpys->calls}, {"bytes", memcpys->bytes});
    gf_json_numbers(json, "parallel_read", {"libraries", reads->libraries}, {"calls", reads->calls},
                    {"bytes", reads->bytes});
    gf_json_numbers(json, "parallel_pin", {"libraries", pins->libraries}, {"calls", pins->calls});
}

static void put_saving(struct gf_json *json, const struct gf_copy_stats *copies)
{
    uint64_t pinned_rate;
    const uint64_t saving_ns = gf_transfer_sums_saving_ns(copies, &pinned_rate);

    gf_json_object(json, "pinning_at_source");
    gf_json_milli(json, "saves_at_most_s", saving_ns / 1000000);
    if (gf_json_known(json, "pinned_gb_per_s", pinned_rate))
        gf_json_milli(json, "pinned_gb_per_s", pinned_rate / 1000000);
}

void gf_report_transfers_put(struct gf_json *json, const struct gf_report_transfers *transfers,
                             gf_hook_counts_fn *hook_counts)
{
    if (!gf_json_known(json, "transfers", transfers->known))
        return;
    gf_json_object(json, "transfers");
    put_state(json, transfers);
    put_direction(json, "to_device", &transfers->copies, gf_direction_h2d);
    put_direction(json, "from_device", &transfers->copies, gf_direction_d2h);
    put_functions(json, hook_counts);
    put_saving(json, &transfers->copies);
    put_files(json, &transfers->copies);
    put_pinned(json, &transfers->copies.pinned, &transfers->state);
}

static void put_waits(struct gf_json *json, const struct gf_copy_wait_sum *sum, uint64_t whole)
{
    gf_json_size(json, "copies", sum->copies);
    gf_json_size(json, "bytes", sum->bytes);
    gf_json_milli(json, "duration_s", sum->ns / 1000000);
    gf_json_micro(json, "share", gf_transfer_sums_share(sum->ns, whole, 1000000));
}

void gf_report_copy_waits_put(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_preload *preload = report->preload;
    const uint64_t whole = gf_transfer_sums_whole_ns(preload, report->ran_ms);
    struct gf_copy_waits waits;

    if (!gf_json_known(json, "copy_waits", preload->options->copy_wait_us))
        return;
    preload->copy_waits(&waits);
    gf_json_object(json, "copy_waits");
    gf_json_begin(json, "to_device", '{');
    put_waits(json, &waits.to_device, whole);
    gf_json_end(json, '}');
    gf_json_begin(json, "from_device", '{');
    put_waits(json, &waits.from_device, whole);
    gf_json_end(json, '}');
    gf_json_array(json, "lines");
    for (unsigned i = 0; i < waits.lines; i++) {
        const struct gf_copy_wait_line *line = &waits.line[i];
        gf_json_object(json, NULL);
        gf_json_text(json, "direction", line->to_device ? "to_device" : "from_device");
        gf_report_line_put(json, &line->at);
        put_waits(json, &line->sum, whole);
    }
}
