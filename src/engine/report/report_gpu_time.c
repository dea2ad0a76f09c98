/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "engine/report/sections.h"
#include "engine/report/summary.h"
#include "engine/report/transfer_sums.h"
#include "engine/transfer/stats.h"

static void put_share(struct gf_json *json, const char *name, uint64_t ns, uint64_t total)
{
    gf_json_object(json, name);
    gf_json_milli(json, "s", ns / 1000000);
    gf_json_micro(json, "share", total ? (uint64_t)((double)ns * 1e6 / (double)total) : 0);
}

static void put_gaps(struct gf_json *json, const struct gf_gpu_time_device *device,
                     uint64_t started_ns)
{
    gf_json_array(json, "longest_gaps");
    for (unsigned i = 0; i < GF_GAPS_LONGEST && device->longest[i].ns; i++) {
        const struct gf_gpu_gap *gap = &device->longest[i];
        gf_json_object(json, NULL);
        gf_json_milli(json, "at_s", (gap->start_ns - gf_min(started_ns, gap->start_ns)) / 1000000);
        gf_json_milli(json, "ms", gap->ns / 1000);
        gf_json_text(json, "cause", gf_host_cause_name(gap->cause));
        gf_json_known_int(json, "ender", gap->ender ? gap->ender : -1);
    }
}

void gf_report_line_put(struct gf_json *json, const struct gf_python_line *at)
{
    gf_json_text(json, "file", at->file);
    gf_json_int(json, "line", at->line);
    gf_json_text(json, "function", at->function);
}

/* Writes, for each cause, the line at which most of its time was spent. */
static void put_lines(struct gf_json *json, const struct gf_gpu_time_device *device)
{
    gf_json_array(json, "lines");
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++) {
        const struct gf_cause_line *line = &device->line[i];
        if (!line->at.line)
            continue;
        gf_json_object(json, NULL);
        gf_json_text(json, "cause", gf_host_cause_name((enum gf_host_cause)i));
        gf_report_line_put(json, &line->at);
        gf_json_milli(json, "s", line->ns / 1000000);
        if (!gf_json_known(json, "holder", line->holder.line))
            continue;
        gf_json_object(json, "holder");
        gf_report_line_put(json, &line->holder);
    }
}

static void put_remedies(struct gf_json *json, const struct gf_gpu_time *time,
                         const struct gf_gpu_time_device *device)
{
    char remedy[GF_REMEDY];

    gf_json_object(json, "remedies");
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        if (*gf_summary_gpu_time_remedy(time, device, i, remedy, sizeof(remedy)))
            gf_json_text(json, gf_host_cause_name(i), remedy);
}

static void put_paths(struct gf_json *json, unsigned device)
{
    struct gf_idle_path path;

    gf_json_array(json, "paths");
    for (unsigned i = 0; gf_sampler_read_path(device, i, &path); i++) {
        gf_json_object(json, NULL);
        gf_json_text(json, "cause", gf_host_cause_name(path.cause));
        gf_json_text(json, "path", path.text);
        gf_json_milli(json, "s", path.ns / 1000000);
    }
}

static void put_device(struct gf_json *json, unsigned number, const struct gf_gpu_time *time,
                       uint64_t started_ns)
{
    const struct gf_gpu_time_device *device = &time->device[number];
    const uint64_t total = gf_gpu_time_whole(device);

    gf_json_object(json, NULL);
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
    put_remedies(json, time, device);
    put_lines(json, device);
    put_paths(json, number);
    gf_json_size(json, "gaps", device->gap_count);
    put_gaps(json, device, started_ns);
}

static void put_without_cpu(struct gf_json *json, const struct gf_cpu_use *use)
{
    gf_json_object(json, "without_cpu");
    gf_json_milli(json, "s", use->ns / 1000000);
    gf_json_milli(json, "own_cpu_s", use->own_ns / 1000000);
    gf_json_size(json, "cpus", use->cpus);
}

static void put_standstill(struct gf_json *json, const struct gf_standstill *standstill,
                           uint64_t started_ns)
{
    const struct gf_python_line *at = &standstill->at;

    if (!gf_json_known(json, "standstill", standstill->count))
        return;
    gf_json_object(json, "standstill");
    gf_json_size(json, "count", standstill->count);
    gf_json_bool(json, "ongoing", standstill->ongoing);
    gf_json_milli(json, "at_s",
                  (standstill->since_ns - gf_min(started_ns, standstill->since_ns)) / 1000000);
    gf_json_milli(json, "s", standstill->ns / 1000000);
    gf_json_known_size(json, "step", standstill->step ? standstill->step : UINT64_MAX);
    gf_json_text(json, "cause", gf_host_cause_name(standstill->cause));
    gf_json_text(json, "file", at->line ? at->file : NULL);
    gf_json_known_int(json, "line", at->line ? at->line : -1);
    gf_json_text(json, "function", at->line ? at->function : NULL);
}

void gf_report_gpu_time_put(struct gf_json *json, const struct gf_gpu_time *time,
                            uint64_t started_ns)
{
    gf_json_object(json, "gpu_time");
    gf_json_bool(json, "sampled", time->on);
    gf_json_text(json, "reason", time->reason);
    gf_json_size(json, "interval_us", time->interval_us);
    gf_json_size(json, "cpu_us", time->cpu_ns / 1000);
    gf_json_size(json, "questions", time->questions);
    gf_json_size(json, "refused", time->refused);
    gf_json_size(json, "longest_question_us", time->longest_question_ns / 1000);
    put_without_cpu(json, &time->without_cpu);
    put_standstill(json, &time->standstill, started_ns);
    gf_json_array(json, "devices");
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++)
        if (time->device[i].used)
            put_device(json, i, time, started_ns);
}

#define LONGEST 16

struct sums {
    uint64_t state_ns[GF_SUBMIT_DEVICES][GF_GPU_STATE_COUNT];
    struct gf_copy_counts copies[gf_direction_count][gf_copy_group_count];
};

static struct sums past; /* the sums at the end of the last interval */

static void read_sums(struct sums *ret)
{
    struct gf_copy_stats stats;

    gf_sampler_read_states(ret->state_ns);
    gf_copy_stats_read(&stats);
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        for (unsigned way = 0; way < gf_copy_group_count; way++)
            ret->copies[direction][way] = gf_transfer_sums_group(&stats, direction, way);
}

/*
 * Writes the time by state since the last line for each device that was sampled in this time.
 * Returns the number of these devices.
 */
static unsigned put_devices(struct gf_json *json, const struct sums *now)
{
    unsigned count = 0;

    gf_json_array(json, "gpus");
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const uint64_t *before = past.state_ns[i];
        if (memcmp(now->state_ns[i], before, sizeof(past.state_ns[i])) == 0)
            continue;
        gf_json_object(json, NULL);
        gf_json_size(json, "device", i);
        for (unsigned state = 0; state < GF_GPU_STATE_COUNT; state++) {
            char key[32];
            gf_fmt(key, sizeof(key), "%s_ms", gf_gpu_state_name(state));
            gf_json_size(json, key, (now->state_ns[i][state] - before[state]) / 1000000);
        }
        count++;
    }
    return count;
}

static void put_direction(struct gf_json *json, enum gf_direction direction)
{
    gf_json_text(json, "direction", direction == gf_direction_h2d ? "to_device" : "from_device");
}

/*
 * Writes a row for each direction and way in which copies were made since the last line. Returns
 * the number of rows.
 */
static unsigned put_copies(struct gf_json *json, const struct sums *now)
{
    unsigned count = 0;

    gf_json_array(json, "copies");
    for (unsigned i = 0; i < gf_direction_count * gf_copy_group_count; i++) {
        const unsigned direction = i / gf_copy_group_count, way = i % gf_copy_group_count;
        const struct gf_copy_counts *counts = &now->copies[direction][way],
                                    *before = &past.copies[direction][way];
        if (counts->calls == before->calls)
            continue;
        gf_json_object(json, NULL);
        put_direction(json, direction);
        gf_json_text(json, "way", gf_copy_group_name(way));
        gf_json_size(json, "calls", counts->calls - before->calls);
        gf_json_size(json, "bytes", counts->bytes - before->bytes);
        gf_json_size(json, "us", (counts->timed_ns - before->timed_ns) / 1000);
        count++;
    }
    return count;
}

static void put_longest(struct gf_json *json)
{
    struct gf_long_copy list[LONGEST];
    const size_t count = gf_longest_copies_take(list, LONGEST);

    gf_json_array(json, "longest");
    for (size_t i = 0; i < count; i++) {
        gf_json_object(json, NULL);
        gf_json_micro(json, "start", (list[i].end_ns - gf_min(list[i].ns, list[i].end_ns)) / 1000);
        gf_json_size(json, "us", list[i].ns / 1000);
        gf_json_size(json, "bytes", list[i].bytes);
        put_direction(json, list[i].direction);
        gf_json_text(json, "way", gf_copy_group_name(list[i].group));
        gf_json_int(json, "tid", list[i].tid);
    }
}

bool gf_report_activity_put(struct gf_json *json)
{
    struct sums now;

    read_sums(&now);
    const unsigned devices = put_devices(json, &now), copies = put_copies(json, &now);
    put_longest(json);
    past = now;
    return devices || copies;
}
