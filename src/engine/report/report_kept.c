/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_kept.h"

void gf_report_kept_put(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_heap_ops *heap = report->heap;
    const struct gf_transfer_state *transfers = &report->transfers.state;
    struct gf_heap_stats stats = {0};

    if (heap->stats)
        heap->stats(&stats);
    gf_json_begin(json, "kept", '{');
    gf_json_size(json, "bytes",
                 stats.dirty + stats.lazily_freed + stats.cached + transfers->ring_bytes +
                     transfers->pinned_kept + transfers->unmap_pending);
    gf_json_size(json, "dirty_bytes", stats.dirty);
    gf_json_size(json, "lazily_freed_bytes", stats.lazily_freed);
    gf_json_size(json, "unused_bytes", 0);
    gf_json_size(json, "thread_cache_bytes", stats.cached);
    gf_json_size(json, "ring_bytes", transfers->ring_bytes);
    gf_json_size(json, "pinned_cache_bytes", transfers->pinned_kept);
    gf_json_size(json, "unmap_pending_bytes", transfers->unmap_pending);
    gf_json_end(json, '}');
}
