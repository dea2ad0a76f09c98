/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_steps.h"

#include "engine/gputime/step_causes.h"

static void put_steps(struct gf_json *json, const struct gf_report *report)
{
    struct gf_step_count steps = {0};

    if (report->step_count)
        report->step_count(&steps);
    if (!steps.ended && !steps.current) {
        gf_json_null(json, "steps");
        return;
    }
    gf_json_begin(json, "steps", '{');
    gf_json_size(json, "ended", steps.ended);
    gf_json_size(json, "us", steps.us);
    gf_json_known_size(json, "current", steps.current ? steps.current : UINT64_MAX);
    gf_json_end(json, '}');
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

static void put_slow(struct gf_json *json, const struct gf_report *report,
                     const struct gf_step_times *times)
{
    gf_json_begin(json, "slow", '[');
    for (unsigned i = 0; i < GF_STEPS_LONGEST && times->slow[i].ns; i++) {
        const struct gf_slow_step *step = &times->slow[i];
        uint64_t idle_ns;
        const struct gf_gpu_gap *gap = gf_step_causes_gap(step, &report->gpu_time, &idle_ns);
        gf_json_begin(json, NULL, '{');
        gf_json_milli(json, "at_s",
                      (step->start_ns - gf_min(report->started_ns, step->start_ns)) / 1000000);
        gf_json_milli(json, "ms", step->ns / 1000);
        gf_json_text(json, "cause", gap ? gf_host_cause_name(gap->cause) : NULL);
        gf_json_milli(json, "idle_ms", gap ? idle_ns / 1000 : 0);
        gf_json_end(json, '}');
    }
    gf_json_end(json, ']');
}

static void put_times(struct gf_json *json, const struct gf_report *report)
{
    struct gf_step_times times = {.source = gf_step_none};

    if (report->step_times)
        report->step_times(&times);
    if (times.source == gf_step_none) {
        gf_json_null(json, "step_times");
        return;
    }
    const uint64_t data_ns = gf_step_causes_data_ns(&times, &report->gpu_time);
    gf_json_begin(json, "step_times", '{');
    gf_json_text(json, "source", source_name(times.source));
    gf_json_known_size(json, "copy_bytes", times.bytes ? times.bytes : UINT64_MAX);
    gf_json_size(json, "steps", times.steps);
    gf_json_milli(json, "p50_ms", times.p50_ns / 1000);
    gf_json_milli(json, "p99_ms", times.p99_ns / 1000);
    gf_json_milli(json, "max_ms", times.max_ns / 1000);
    if (data_ns == UINT64_MAX)
        gf_json_null(json, "data_wait_ms");
    else
        gf_json_milli(json, "data_wait_ms", data_ns / 1000);
    put_slow(json, report, &times);
    gf_json_end(json, '}');
}

void gf_report_steps_put(struct gf_json *json, const struct gf_report *report)
{
    put_steps(json, report);
    put_times(json, report);
}
