/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_stalls.h"

#define THREADS_MAX 32 /* number of threads that have rows of their own */

static void put_counts(struct gf_json *json, const struct gf_report *report)
{
    struct gf_stall_count counts[GF_CAUSE_COUNT];
    uint64_t calls = 0, us = 0;

    report->stall_counts(counts);
    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        calls += counts[i].calls;
        us += counts[i].us;
    }
    gf_json_size(json, "count", calls);
    gf_json_size(json, "us", us);
    gf_json_begin(json, "causes", '{');
    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        if (!counts[i].calls)
            continue;
        gf_json_begin(json, gf_cause_name((enum gf_cause)i), '{');
        gf_json_size(json, "count", counts[i].calls);
        gf_json_size(json, "us", counts[i].us);
        gf_json_end(json, '}');
    }
    gf_json_end(json, '}');
}

struct rows {
    struct gf_json *json;
    unsigned threads;
};

static void put_row(void *closure, const struct gf_latency *row)
{
    struct rows *rows = closure;
    struct gf_json *json = rows->json;

    if (row->tid != -1 && rows->threads++ >= THREADS_MAX)
        return;
    gf_json_begin(json, NULL, '{');
    gf_json_text(json, "call", gf_timed_name(row->kind));
    gf_json_known_size(json, "size_to", row->size_to ? row->size_to : UINT64_MAX);
    if (row->tid != -1)
        gf_json_int(json, "tid", row->tid);
    gf_json_size(json, "count", row->count);
    gf_json_milli(json, "mean_us", row->count ? row->total_ns / row->count : 0);
    gf_json_milli(json, "p50_us", row->p50_ns);
    gf_json_milli(json, "p99_us", row->p99_ns);
    gf_json_milli(json, "p999_us", row->p999_ns);
    gf_json_milli(json, "max_us", row->max_ns);
    gf_json_end(json, '}');
}

static void put_log(struct gf_json *json, const struct gf_report *report)
{
    struct gf_journal_count count;

    if (!report->log_count) {
        gf_json_null(json, "log");
        return;
    }
    report->log_count(&count);
    gf_json_begin(json, "log", '{');
    gf_json_size(json, "lines", count.lines);
    gf_json_size(json, "dropped", count.dropped);
    gf_json_end(json, '}');
}

void gf_report_stalls_put(struct gf_json *json, const struct gf_report *report)
{
    struct rows rows = {.json = json};

    if (!report->stall_counts || !report->each_latency)
        return;
    gf_json_begin(json, "stalls", '{');
    gf_json_size(json, "threshold_us", report->options->stall_us);
    put_counts(json, report);
    gf_json_end(json, '}');
    gf_json_begin(json, "latency", '[');
    report->each_latency(put_row, &rows);
    gf_json_end(json, ']');
    put_log(json, report);
}
