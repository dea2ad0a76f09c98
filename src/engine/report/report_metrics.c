/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/formats.h"
#include "base/fmt.h"
#include "engine/report/sections.h"

struct metrics {
    struct gf_textbuf out;
    const struct gf_report *report;
};

static void head(struct metrics *metrics, enum gf_metric metric)
{
    const struct gf_metric_row *row = gf_metric_row(metric);

    gf_say(&metrics->out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
           row->type);
}

/*
 * Writes the beginning of a line: the name of the metric and the labels that every line has. The
 * caller then writes further labels and the value.
 */
static void line(struct metrics *metrics, enum gf_metric metric)
{
    const struct gf_rank *rank = &metrics->report->facts->rank;

    gf_say(&metrics->out, "%s{rank=\"", gf_metric_row(metric)->name);
    if (rank->rank >= 0)
        gf_say(&metrics->out, "%d", rank->rank);
    gf_say(&metrics->out, "\",pid=\"%d\"", metrics->report->pid);
}

static void count(struct metrics *metrics, uint64_t number)
{
    gf_say(&metrics->out, "} %lu\n", number);
}

static void seconds(struct metrics *metrics, uint64_t us)
{
    gf_say(&metrics->out, "} %lu.%06lu\n", us / 1000000, us % 1000000);
}

static void put_number(struct metrics *metrics, enum gf_metric metric, uint64_t number)
{
    head(metrics, metric);
    line(metrics, metric);
    count(metrics, number);
}

static void put_seconds(struct metrics *metrics, enum gf_metric metric, uint64_t us)
{
    head(metrics, metric);
    line(metrics, metric);
    seconds(metrics, us);
}

/*
 * Writes a further label. node_exporter refuses a file that is not UTF-8, so any byte that is not
 * printable ASCII becomes '?'.
 */
static void label(struct metrics *metrics, const char *name, const char *value)
{
    gf_say(&metrics->out, ",%s=\"", name);
    for (; *value; value++)
        gf_say(&metrics->out, *value == '"' || *value == '\\' ? "\\%c" : "%c",
               *value >= ' ' && *value < 0x7f ? *value : '?');
    gf_say(&metrics->out, "\"");
}

static void put_info(struct metrics *metrics)
{
    head(metrics, gf_metric_info);
    line(metrics, gf_metric_info);
    label(metrics, "job_id", metrics->report->job);
    label(metrics, "program", metrics->report->program);
    label(metrics, "version", metrics->report->preload->version);
    count(metrics, 1);
}

static void put_stalls(struct metrics *metrics, enum gf_metric metric)
{
    struct gf_stall_count counts[GF_CAUSE_COUNT];

    metrics->report->preload->stall_counts(counts);
    head(metrics, metric);
    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        line(metrics, metric);
        gf_say(&metrics->out, ",cause=\"%s\"", gf_cause_name(i));
        if (metric == gf_metric_stalls)
            count(metrics, counts[i].calls);
        else
            seconds(metrics, counts[i].us);
    }
}

static void put_copies(struct metrics *metrics, enum gf_metric metric)
{
    head(metrics, metric);
    for (unsigned i = 0; i < gf_direction_count * gf_copy_group_count; i++) {
        const unsigned direction = i / gf_copy_group_count, way = i % gf_copy_group_count;
        const struct gf_copy_counts counts =
            gf_transfer_sums_group(&metrics->report->transfers.copies, direction, way);
        line(metrics, metric);
        gf_say(&metrics->out, ",direction=\"%s\",way=\"%s\"",
               direction == gf_direction_h2d ? "to_device" : "from_device",
               gf_copy_group_name(way));
        if (metric == gf_metric_copy_seconds)
            seconds(metrics, counts.timed_ns / 1000);
        else
            count(metrics, metric == gf_metric_copies ? counts.calls : counts.bytes);
    }
}

static void put_pinned(struct metrics *metrics, const uint64_t bytes[GF_NODE_BYTES_COUNT])
{
    head(metrics, gf_metric_pinned_bytes);
    for (unsigned node = 0; node < GF_NODE_BYTES_COUNT; node++) {
        if (!bytes[node])
            continue;
        line(metrics, gf_metric_pinned_bytes);
        gf_say(&metrics->out, node == GF_NODE_BYTES_UNKNOWN ? ",node=\"unknown\"" : ",node=\"%u\"",
               node);
        count(metrics, bytes[node]);
    }
}

static void put_memory(struct metrics *metrics)
{
    const struct gf_report *report = metrics->report;
    const uint64_t headroom = report->memory.headroom.bytes;
    struct gf_heap_stats stats = {0};

    put_number(metrics, gf_metric_kept_bytes, gf_report_kept_bytes(report));
    if (report->preload->heap->stats) {
        report->preload->heap->stats(&stats);
        put_number(metrics, gf_metric_heap_bytes, stats.allocated);
    }
    if (report->memory.readings && headroom != UINT64_MAX)
        put_number(metrics, gf_metric_headroom_bytes, headroom);
}

static void put_transfers(struct metrics *metrics)
{
    const struct gf_report_transfers *transfers = &metrics->report->transfers;

    if (!transfers->known)
        return;
    put_copies(metrics, gf_metric_copies);
    put_copies(metrics, gf_metric_copied_bytes);
    put_copies(metrics, gf_metric_copy_seconds);
    put_number(metrics, gf_metric_ring_bytes, transfers->state.ring_bytes);
    put_number(metrics, gf_metric_ring_waits, transfers->copies.stream_waits);
    put_number(metrics, gf_metric_pinned_cache_bytes, transfers->state.pinned_kept);
    put_pinned(metrics, transfers->state.pinned_held);
}

static void put_gpu_time(struct metrics *metrics, enum gf_metric metric)
{
    const struct gf_gpu_time *time = &metrics->report->gpu_time;
    const bool by_state = metric == gf_metric_gpu_seconds;

    if (!time->on)
        return;
    head(metrics, metric);
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const struct gf_gpu_time_device *device = &time->device[i];
        const unsigned parts = by_state ? GF_GPU_STATE_COUNT : GF_HOST_CAUSE_COUNT;
        for (unsigned k = 0; device->used && k < parts; k++) {
            line(metrics, metric);
            gf_say(&metrics->out, ",device=\"%u\",%s=\"%s\"", i, by_state ? "state" : "cause",
                   by_state ? gf_gpu_state_name(k) : gf_host_cause_name(k));
            seconds(metrics, (by_state ? device->state_ns[k] : device->cause_ns[k]) / 1000);
        }
    }
}

static void put_steps(struct metrics *metrics)
{
    struct gf_step_count steps;

    metrics->report->preload->step_count(&steps);
    put_number(metrics, gf_metric_steps, steps.ended);
    put_seconds(metrics, gf_metric_step_seconds, steps.us);
}

static void put_log(struct metrics *metrics)
{
    struct gf_journal_count lines;

    if (!metrics->report->preload->log_wanted())
        return;
    metrics->report->preload->log_count(&lines);
    put_number(metrics, gf_metric_dropped_lines, lines.dropped);
}

size_t gf_report_metrics(const struct gf_report *report, char *buf, size_t size)
{
    struct metrics metrics = {.out = {.buf = buf, .size = size}, .report = report};

    put_info(&metrics);
    put_stalls(&metrics, gf_metric_stalls);
    put_stalls(&metrics, gf_metric_stall_seconds);
    put_transfers(&metrics);
    put_gpu_time(&metrics, gf_metric_gpu_seconds);
    put_gpu_time(&metrics, gf_metric_gpu_empty_seconds);
    put_steps(&metrics);
    put_seconds(&metrics, gf_metric_run_seconds, report->ran_ms * 1000);
    put_memory(&metrics);
    put_log(&metrics);
    put_number(&metrics, gf_metric_device_bytes, report->driver_bytes);
    return metrics.out.at < size ? metrics.out.at : 0;
}
