/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_gpu_time.h"

static uint64_t sum_of(const uint64_t *ns, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += ns[i];
    return sum;
}

static void put_share(struct gf_json *json, const char *name, uint64_t ns, uint64_t total)
{
    gf_json_begin(json, name, '{');
    gf_json_milli(json, "s", ns / 1000000);
    gf_json_micro(json, "share", total ? (uint64_t)((double)ns * 1e6 / (double)total) : 0);
    gf_json_end(json, '}');
}

static void put_gaps(struct gf_json *json, const struct gf_gpu_time_device *device,
                     uint64_t started_ns)
{
    gf_json_begin(json, "longest_gaps", '[');
    for (unsigned i = 0; i < GF_GAPS_LONGEST && device->longest[i].ns; i++) {
        const struct gf_gpu_gap *gap = &device->longest[i];
        gf_json_begin(json, NULL, '{');
        gf_json_milli(json, "at_s", (gap->start_ns - gf_min(started_ns, gap->start_ns)) / 1000000);
        gf_json_milli(json, "ms", gap->ns / 1000);
        gf_json_text(json, "cause", gf_host_cause_name(gap->cause));
        gf_json_known_int(json, "ender", gap->ender ? gap->ender : -1);
        gf_json_end(json, '}');
    }
    gf_json_end(json, ']');
}

/* Writes, for each cause, the line at which most of its time was spent. */
static void put_lines(struct gf_json *json, const struct gf_gpu_time_device *device)
{
    gf_json_begin(json, "lines", '[');
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++) {
        const struct gf_cause_line *line = &device->line[i];
        if (!line->at.line)
            continue;
        gf_json_begin(json, NULL, '{');
        gf_json_text(json, "cause", gf_host_cause_name((enum gf_host_cause)i));
        gf_json_text(json, "file", line->at.file);
        gf_json_int(json, "line", line->at.line);
        gf_json_text(json, "function", line->at.function);
        gf_json_milli(json, "s", line->ns / 1000000);
        gf_json_end(json, '}');
    }
    gf_json_end(json, ']');
}

static void put_device(struct gf_json *json, unsigned number,
                       const struct gf_gpu_time_device *device, uint64_t started_ns)
{
    const uint64_t total = sum_of(device->state_ns, GF_GPU_STATE_COUNT);

    gf_json_begin(json, NULL, '{');
    gf_json_size(json, "device", number);
    gf_json_milli(json, "s", total / 1000000);
    gf_json_size(json, "samples", device->samples);
    gf_json_begin(json, "states", '{');
    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        put_share(json, gf_gpu_state_name((enum gf_gpu_state)i), device->state_ns[i], total);
    gf_json_end(json, '}');
    gf_json_milli(json, "exact_s", device->exact_ns / 1000000);
    gf_json_begin(json, "causes", '{');
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        if (device->cause_ns[i])
            put_share(json, gf_host_cause_name((enum gf_host_cause)i), device->cause_ns[i], total);
    gf_json_end(json, '}');
    put_lines(json, device);
    gf_json_size(json, "gaps", device->gap_count);
    put_gaps(json, device, started_ns);
    gf_json_end(json, '}');
}

static void put_without_cpu(struct gf_json *json, const struct gf_cpu_use *use)
{
    gf_json_begin(json, "without_cpu", '{');
    gf_json_milli(json, "s", use->ns / 1000000);
    gf_json_milli(json, "own_cpu_s", use->own_ns / 1000000);
    gf_json_size(json, "cpus", use->cpus);
    gf_json_end(json, '}');
}

void gf_report_gpu_time_put(struct gf_json *json, const struct gf_gpu_time *time,
                            uint64_t started_ns)
{
    gf_json_begin(json, "gpu_time", '{');
    gf_json_bool(json, "sampled", time->on);
    gf_json_text(json, "reason", time->reason);
    gf_json_size(json, "interval_us", time->interval_us);
    gf_json_size(json, "cpu_us", time->cpu_ns / 1000);
    gf_json_size(json, "questions", time->questions);
    gf_json_size(json, "refused", time->refused);
    gf_json_size(json, "longest_question_us", time->longest_question_ns / 1000);
    put_without_cpu(json, &time->without_cpu);
    gf_json_begin(json, "devices", '[');
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        if (time->device[i].used)
            put_device(json, i, &time->device[i], started_ns);
    gf_json_end(json, ']');
    gf_json_end(json, '}');
}
