/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "engine/report/sections.h"

static void put_settings(struct gf_json *json, const struct gf_heap_ops *heap)
{
    struct gf_heap_setting setting;

    gf_json_array(json, "settings");
    for (size_t i = 0; heap->setting(i, &setting); i++) {
        gf_json_object(json, NULL);
        gf_json_text(json, "name", setting.name);
        gf_json_text(json, "value", setting.value);
        gf_json_text(json, "from", setting.ours ? "gpufeed" : "MALLOC_CONF");
        gf_json_text(json, "reason", setting.reason);
    }
}

static void put_retained(struct gf_json *json, const struct gf_heap_ops *heap)
{
    struct gf_heap_retained retained = {0};

    heap->retained(&retained);
    gf_json_object(json, "retained");
    gf_json_bool(json, "managed", retained.managed);
    gf_json_size(json, "max_bytes", retained.max_bytes);
    gf_json_size(json, "unused_bytes", 0);
    gf_json_size(json, "unused_purged_bytes", retained.excess_purged);
    gf_json_size(json, "max_dirty_bytes", retained.max_bytes);
    gf_json_size(json, "dirty_limit_bytes", retained.limit);
    gf_json_size(json, "readings", 0);
    gf_json_size(json, "lazy_frees", 0);
    gf_json_size(json, "purges", retained.purges);
    gf_json_size(json, "lazily_freed_bytes", retained.lazily_freed_bytes);
    gf_json_size(json, "purged_bytes", retained.purged_bytes);
}

static void put_faults(struct gf_json *json, const struct gf_heap_ops *heap)
{
    struct gf_heap_huge huge = {0};
    struct gf_heap_first_touch touch = {0};

    heap->huge(&huge);
    heap->first_touch(&touch);
    gf_json_begin(json, "huge_pages", '{');
    gf_json_bool(json, "on", huge.on);
    gf_json_text(json, "reason", huge.reason);
    gf_json_size(json, "eligible_bytes", huge.asked_bytes);
    gf_json_size(json, "advised_bytes", huge.advised_bytes);
    gf_json_end(json, '}');
    gf_json_numbers(json, "first_touch", {"samples", touch.looks}, {"timed_faults", touch.timed},
                    {"absent_bytes", touch.missing_bytes}, {"purged_bytes", touch.again_bytes},
                    {"us", touch.us}, {"ns_per_mib", touch.ns_per_mib});
}

static void put_watch(struct gf_json *json, const struct gf_report_memory *memory)
{
    if (!gf_json_known(json, "watch", memory->readings))
        return;
    gf_json_object(json, "watch");
    gf_json_size(json, "readings", memory->readings);
    gf_json_size(json, "lazy_frees", 0);
    gf_json_size(json, "purges", memory->purges);
    gf_json_known_size(json, "headroom_bytes", memory->headroom.bytes);
    gf_json_known_size(json, "min_headroom_bytes", memory->min_headroom);
    gf_json_text(json, "headroom_source", gf_headroom_source(&memory->headroom));
    gf_json_known_size(json, "cgroup_headroom_bytes", memory->headroom.cgroup);
    gf_json_text(json, "cgroup_headroom_source", memory->headroom.cgroup_file);
    gf_json_known_size(json, "host_headroom_bytes", memory->headroom.host);
    gf_json_known_size(json, "node_headroom_bytes", memory->headroom.node);
    gf_json_known_size(json, "stalled_us", memory->pressure.stalled_us);
    gf_json_text(json, "stalled_source", memory->pressure.stalled_file);
    gf_json_known_size(json, "limit_hits", memory->pressure.limited);
    gf_json_known_size(json, "oom_kills", memory->pressure.killed);
    gf_json_text(json, "limit_source", memory->pressure.limited_file);
}

static void put_embedded(struct gf_json *json, const struct gf_embedded *embedded)
{
    gf_json_array(json, "embedded");
    for (size_t i = 0; i < embedded->count; i++) {
        const struct gf_embedded_one *one = &embedded->one[i];
        gf_json_object(json, NULL);
        gf_json_text(json, "object", one->object);
        gf_json_text(json, "allocator", one->allocator);
        gf_json_text(json, "symbol", one->symbol);
    }
}

void gf_report_memory_put_nodes(struct gf_json *json, const char *key, const uint64_t *bytes,
                                unsigned count)
{
    char name[16];

    gf_json_object(json, key);
    for (unsigned node = 0; node < count; node++) {
        if (!bytes[node])
            continue;
        gf_fmt(name, sizeof(name), node == GF_NODE_BYTES_UNKNOWN ? "unknown" : "%u", node);
        gf_json_size(json, name, bytes[node]);
    }
}

void gf_report_memory_put_pages(struct gf_json *json, const char *key, const struct gf_pages *pages)
{
    gf_json_object(json, key);
    gf_json_size(json, "bytes", pages->total);
    gf_report_memory_put_nodes(json, "by_node", pages->node, GF_LOCALITY_NODES);
}

static void put_migration(struct gf_json *json, const struct gf_report_migration *moved)
{
    gf_json_object(json, "migration");
    gf_json_bool(json, "wanted", moved->wanted);
    gf_json_bool(json, "done", moved->done);
    gf_json_bool(json, "stopped", moved->stopped);
    gf_json_size(json, "left_bytes", moved->left_bytes);
    gf_json_size(json, "bytes", moved->bytes);
    gf_json_size(json, "calls", moved->calls);
    gf_json_size(json, "refused", moved->refused);
    gf_json_text(json, "error", moved->error ? strerrorname_np(moved->error) : NULL);
    gf_report_memory_put_pages(json, "before", &moved->before);
    gf_report_memory_put_pages(json, "after", &moved->after);
}

static void put_stats(struct gf_json *json, const struct gf_heap_ops *heap)
{
    struct gf_heap_stats stats = {0};

    heap->stats(&stats);
    gf_json_size(json, "mapped", stats.mapped);
    gf_json_size(json, "active", stats.active);
    gf_json_size(json, "allocated", stats.allocated);
    gf_json_int(json, "arenas", stats.arenas);
}

void gf_report_memory_put(struct gf_json *json, const struct gf_report *report)
{
    static const char *const modes[] = {"undecided", "replace", "passthrough"};
    const struct gf_heap_ops *heap = report->preload->heap;

    gf_json_object(json, "heap");
    gf_json_text(json, "mode", modes[heap->mode]);
    gf_json_text(json, "reason", heap->mode_reason);
    if (heap->stats)
        put_stats(json, heap);
    if (heap->refused)
        gf_json_size(json, "mbind_refused", heap->refused());
    put_embedded(json, &report->embedded);
    if (heap->retained) {
        put_settings(json, heap);
        gf_json_text(json, "ignored_conf", *heap->ignored_conf() ? heap->ignored_conf() : NULL);
        put_retained(json, heap);
        put_faults(json, heap);
        put_watch(json, &report->memory);
    }
    put_migration(json, &report->migration);
}

static void read_stats(const struct gf_report *report, struct gf_heap_stats *ret)
{
    *ret = (struct gf_heap_stats){0};
    if (report->preload->heap->stats)
        report->preload->heap->stats(ret);
}

static uint64_t kept_bytes(const struct gf_heap_stats *stats,
                           const struct gf_transfer_state *transfers)
{
    return stats->dirty + stats->lazily_freed + stats->cached + transfers->ring_bytes +
           transfers->pinned_kept + transfers->unmap_pending;
}

uint64_t gf_report_kept_bytes(const struct gf_report *report)
{
    struct gf_heap_stats stats;

    read_stats(report, &stats);
    return kept_bytes(&stats, &report->transfers.state);
}

void gf_report_kept_put(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_transfer_state *transfers = &report->transfers.state;
    struct gf_heap_stats stats;

    read_stats(report, &stats);
    gf_json_numbers(json, "kept", {"bytes", kept_bytes(&stats, transfers)},
                    {"dirty_bytes", stats.dirty}, {"lazily_freed_bytes", stats.lazily_freed},
                    {"unused_bytes", 0}, {"thread_cache_bytes", stats.cached},
                    {"ring_bytes", transfers->ring_bytes},
                    {"pinned_cache_bytes", transfers->pinned_kept},
                    {"unmap_pending_bytes", transfers->unmap_pending});
}
