/* SPDX-License-Identifier: Apache-2.0 */
#include "base/atomic.h"
#include "engine/gputime/step_causes.h"
#include "engine/report/sections.h"

/* So that uneven steps leave most of the log to stalls. */
#define LINES_MOST 1000u

/* Only the thread that has set `busy` uses the other members. */
static struct {
    _Atomic bool busy;
    unsigned lines;
    uint64_t start_ns[GF_STEPS_LONGEST]; /* those slow steps of the last call that are logged */
} logged;

static void put_steps(struct gf_json *json, const struct gf_report *report)
{
    struct gf_step_count steps;

    report->preload->step_count(&steps);
    if (!gf_json_known(json, "steps", steps.ended || steps.current))
        return;
    gf_json_object(json, "steps");
    gf_json_size(json, "ended", steps.ended);
    gf_json_size(json, "us", steps.us);
    gf_json_known_size(json, "current", steps.current ? steps.current : UINT64_MAX);
}

static const char *source_name(enum gf_step_source source)
{
    static const char *const names[] = {
#define GF_STEP_SOURCE(name) #name,
        GF_STEP_SOURCES(GF_STEP_SOURCE)
#undef GF_STEP_SOURCE
    };
    return names[source];
}

/* Without samples of the GPU, a time is unknown. */
static void put_known_ms(struct gf_json *json, const char *name, uint64_t ns, bool known)
{
    if (gf_json_known(json, name, known))
        gf_json_milli(json, name, ns / 1000);
}

static void put_cause(struct gf_json *json, const struct gf_step_times *times,
                      const struct gf_slow_step *step)
{
    const bool known = times->has_facts;
    struct gf_step_cause cause;

    gf_step_causes_find(times, step, &cause);
    gf_json_text(
        json, "difference",
        cause.difference == gf_step_by_unknown ? NULL : gf_step_difference_name(cause.difference));
    gf_json_text(json, "cause", cause.idle_ns ? gf_host_cause_name(cause.idle) : NULL);
    put_known_ms(json, "idle_ms", cause.idle_ns, known);
    gf_json_text(json, "stall", cause.stall_ns ? gf_cause_name(cause.stall) : NULL);
    put_known_ms(json, "stall_ms", cause.stall_ns, true);
    put_known_ms(json, "throttled_ms", cause.throttled_ns, known);
    put_known_ms(json, "communicating_ms", cause.communicating_ns, known);
    put_known_ms(json, "queued_ms", cause.queued_ns, known);
    put_known_ms(json, "clock_ms", cause.clock_ns, known);
    gf_json_known_size(json, "minor_faults", known ? cause.minor : UINT64_MAX);
    gf_json_known_size(json, "major_faults", known ? cause.major : UINT64_MAX);
}

static void put_slow(struct gf_json *json, const struct gf_report *report,
                     const struct gf_step_times *times)
{
    gf_json_array(json, "slow");
    for (unsigned i = 0; i < GF_STEPS_LONGEST && times->slow[i].ns; i++) {
        const struct gf_slow_step *step = &times->slow[i];
        gf_json_object(json, NULL);
        gf_json_milli(json, "at_s",
                      (step->start_ns - gf_min(report->started_ns, step->start_ns)) / 1000000);
        gf_json_milli(json, "ms", step->ns / 1000);
        put_cause(json, times, step);
    }
}

static void put_times(struct gf_json *json, const struct gf_report *report)
{
    struct gf_step_times times;

    report->preload->step_times(&times);
    if (!gf_json_known(json, "step_times", times.source != gf_step_none))
        return;
    const uint64_t data_ns = gf_step_causes_data_ns(&times, &report->gpu_time);
    gf_json_object(json, "step_times");
    gf_json_text(json, "source", source_name(times.source));
    gf_json_known_size(json, "copy_bytes", times.bytes ? times.bytes : UINT64_MAX);
    gf_json_size(json, "steps", times.steps);
    gf_json_milli(json, "p50_ms", times.p50_ns / 1000);
    gf_json_milli(json, "p99_ms", times.p99_ns / 1000);
    gf_json_milli(json, "max_ms", times.max_ns / 1000);
    put_known_ms(json, "data_wait_ms", data_ns, data_ns != UINT64_MAX);
    gf_json_size(json, "slow_steps", times.slow_steps);
    put_slow(json, report, &times);
}

void gf_report_steps_put(struct gf_json *json, const struct gf_report *report)
{
    put_steps(json, report);
    put_times(json, report);
}

static bool is_logged(const struct gf_slow_step *step)
{
    for (unsigned i = 0; i < GF_STEPS_LONGEST; i++)
        if (logged.start_ns[i] == step->start_ns)
            return true;
    return false;
}

static void log_step(const struct gf_step_times *times, const struct gf_slow_step *step,
                     gf_report_steps_log_fn *log)
{
    char fields[1024];
    struct gf_json json = {.buf = fields, .size = sizeof(fields)};

    gf_json_begin(&json, NULL, '{');
    gf_json_text(&json, "source", source_name(times->source));
    gf_json_micro(&json, "start", step->start_ns / 1000);
    gf_json_size(&json, "us", step->ns / 1000);
    gf_json_size(&json, "p50_us", times->p50_ns / 1000);
    put_cause(&json, times, step);
    gf_json_end(&json, '}');
    logged.lines++;
    if (gf_json_close(&json))
        log("slow_step", fields);
}

void gf_report_steps_log(const struct gf_step_times *times, bool last, gf_report_steps_log_fn *log)
{
    uint64_t start_ns[GF_STEPS_LONGEST] = {0};

    if (gf_exchange_acquire(&logged.busy, true))
        return;
    for (unsigned i = 0; i < GF_STEPS_LONGEST && times->slow[i].ns; i++) {
        const struct gf_slow_step *step = &times->slow[i];
        if (!is_logged(step)) {
            if (logged.lines >= LINES_MOST || (times->has_facts && !step->settled && !last))
                continue;
            log_step(times, step, log);
        }
        start_ns[i] = step->start_ns;
    }
    memcpy(logged.start_ns, start_ns, sizeof(start_ns));
    gf_store_release(&logged.busy, false);
}

#define THREADS_MAX 32 /* number of threads that have rows of their own */

static void put_counts(struct gf_json *json, const struct gf_report *report)
{
    struct gf_stall_count counts[GF_CAUSE_COUNT];

    report->preload->stall_counts(counts);
    const struct gf_stall_count all = gf_stall_sum(counts);
    gf_json_size(json, "count", all.calls);
    gf_json_size(json, "us", all.us);
    gf_json_object(json, "causes");
    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++)
        if (counts[i].calls)
            gf_json_numbers(json, gf_cause_name((enum gf_cause)i), {"count", counts[i].calls},
                            {"us", counts[i].us});
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
    gf_json_object(json, NULL);
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
}

static void put_log(struct gf_json *json, const struct gf_report *report)
{
    struct gf_journal_count count;

    if (!gf_json_known(json, "log", report->preload->log_wanted()))
        return;
    report->preload->log_count(&count);
    gf_json_numbers(json, "log", {"lines", count.lines}, {"dropped", count.dropped});
}

void gf_report_stalls_put(struct gf_json *json, const struct gf_report *report)
{
    struct rows rows = {.json = json};

    gf_json_begin(json, "stalls", '{');
    gf_json_size(json, "threshold_us", report->preload->options->stall_us);
    put_counts(json, report);
    gf_json_end(json, '}');
    gf_json_begin(json, "latency", '[');
    report->preload->each_latency(put_row, &rows);
    gf_json_end(json, ']');
    put_log(json, report);
}
