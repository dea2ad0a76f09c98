/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_tables.h"

#include "base/fmt.h"
#include "base/path.h"
#include "tools/job/job_input.h"

#include <stdio.h>
#include <stdlib.h>

const char *const gf_way_names[GF_WAYS] = {"staged", "pinned", "driver", "other"};
const char *const gf_direction_names[GF_DIRECTIONS] = {"to_device", "from_device"};

void gf_copy_sum_add(struct gf_copy_sum *sum, const struct gf_copy_sum *more)
{
    sum->calls += more->calls;
    sum->bytes += more->bytes;
    sum->duration_s += more->duration_s;
}

static void add_sum(struct gf_copy_sum *sum, const json_t *row)
{
    sum->calls += gf_report_number(row, "calls") + gf_report_number(row, "copies");
    sum->bytes += gf_report_number(row, "bytes");
    sum->duration_s += gf_report_number(row, "duration_s");
}

static struct gf_copy_reason *reason_of(struct gf_copies *copies, int direction, const char *key)
{
    struct gf_copy_reason *list = copies->reasons[direction];
    unsigned *count = &copies->reason_count[direction];
    const char *name = gf_report_plain(key, sizeof(list->name));

    for (unsigned i = 0; i < *count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    if (*count == GF_COPY_REASONS)
        return NULL;
    snprintf(list[*count].name, sizeof(list->name), "%s", name);
    return &list[(*count)++];
}

static void add_direction(struct gf_copies *copies, int direction, const json_t *row)
{
    const char *name;
    json_t *reason;

    for (int way = 0; way < GF_WAYS; way++)
        add_sum(&copies->ways[direction][way], json_object_get(row, gf_way_names[way]));
    json_t *reasons = json_object_get(row, "reasons");
    json_object_foreach(reasons, name, reason) {
        struct gf_copy_reason *at = reason_of(copies, direction, name);
        if (at)
            add_sum(&at->sum, reason);
    }
}

void gf_copies_add(struct gf_copies *copies, const json_t *report)
{
    const json_t *transfers = gf_report_at(report, "transfers");

    if (!json_is_object(transfers))
        return;
    copies->reports++;
    for (int i = 0; i < GF_DIRECTIONS; i++)
        add_direction(copies, i, json_object_get(transfers, gf_direction_names[i]));
    add_sum(&copies->small, json_object_get(transfers, "small"));
    copies->stream_waits += gf_report_number(transfers, "ring.stream_waits");
    copies->pinning_saves_s += gf_report_number(transfers, "pinning_at_source.saves_at_most_s");
    if (!*copies->staging_off)
        GF_REPORT_COPY(copies->staging_off, transfers, "staging_off");
}

GF_COMPARATOR(by_bytes, struct gf_copy_reason,
              gf_order(other->sum.bytes, one->sum.bytes) ?: strcmp(one->name, other->name))

void gf_copies_finish(struct gf_copies *copies)
{
    for (int i = 0; i < GF_DIRECTIONS; i++)
        qsort(copies->reasons[i], copies->reason_count[i], sizeof(copies->reasons[i][0]), by_bytes);
}

double gf_copy_rate(const struct gf_copy_sum *sum)
{
    return sum->duration_s > 0 ? sum->bytes / sum->duration_s / 1e9 : 0;
}

#define LEAST_SAMPLES 20 /* a GPU with fewer samples is ignored: its shares are not reliable */

static struct gf_gpu_part *part_of(struct gf_gpu_parts *parts, const char *name)
{
    unsigned at = 0;

    while (at < parts->count && strcmp(parts->list[at].name, name) != 0)
        at++;
    if (at == GF_GPU_PARTS)
        return NULL;
    if (at == parts->count)
        snprintf(parts->list[parts->count++].name, sizeof(parts->list[at].name), "%s", name);
    return &parts->list[at];
}

/* Finds the line of a cause in a device's list, which has at most one line for each cause. */
static void read_idle_line(const json_t *lines, const char *cause, char *ret, size_t size)
{
    json_t *line;
    size_t i;

    *ret = '\0';
    json_array_foreach(lines, i, line) {
        if (i == GF_GPU_PARTS) /* a real list is shorter */
            return;
        if (strcmp(gf_report_text(line, "cause", 32), cause) == 0) {
            snprintf(ret, size, "%s:%.0f in %s",
                     gf_path_file_name(gf_report_text(line, "file", 64)),
                     gf_report_number(line, "line"), gf_report_text(line, "function", 64));
            gf_plain_text(ret);
            return;
        }
    }
}

static void add_part(struct gf_gpu_parts *parts, const char *name, double s, const json_t *device,
                     int64_t rank)
{
    const json_t *remedies = json_object_get(device, "remedies");
    struct gf_gpu_part *part = part_of(parts, name);

    if (!part)
        return;
    part->s += s;
    if (s > part->rank_s) {
        part->rank = rank;
        part->rank_s = s;
        read_idle_line(json_object_get(device, "lines"), name, part->line, sizeof(part->line));
    }
    if (remedies && !json_object_get(remedies, name))
        return;
    part->helped_s += s;
    if (s > part->remedy_s) {
        part->remedy_s = s;
        GF_REPORT_COPY(part->remedy, remedies, name);
    }
}

/* Adds the times of a device by state or by cause. Returns the sum of these times. */
static double add_parts(struct gf_gpu_parts *parts, const json_t *device, const char *of,
                        int64_t rank)
{
    const json_t *rows = gf_report_at(device, of);
    const char *key;
    json_t *row;
    double sum = 0;

    json_object_foreach((json_t *)(uintptr_t)rows, key, row) {
        const double s = gf_report_number(row, "s");
        add_part(parts, gf_report_plain(key, sizeof(parts->list[0].name)), s, device, rank);
        sum += s;
    }
    return sum;
}

void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *report, int64_t rank)
{
    json_t *device;
    size_t i;

    json_array_foreach(gf_report_at(report, "gpu_time.devices"), i, device) {
        if (gf_report_number(device, "samples") < LEAST_SAMPLES)
            continue;
        time->devices++;
        time->s += add_parts(&time->states, device, "states", rank);
        add_parts(&time->causes, device, "causes", rank);
    }
}

GF_COMPARATOR(by_time, struct gf_gpu_part,
              gf_order(other->s, one->s) ?: strcmp(one->name, other->name))

void gf_gpu_seconds_add(const json_t *report, double *gpu_s, double *empty_s)
{
    json_t *device, *state;
    const char *name;
    size_t i;

    json_array_foreach(gf_report_at(report, "gpu_time.devices"), i, device) {
        json_object_foreach(json_object_get(device, "states"), name, state)
            *gpu_s += gf_report_number(state, "s");
        *empty_s += gf_report_number(device, "states.empty.s");
    }
}

void gf_gpu_time_finish(struct gf_gpu_time *time)
{
    qsort(time->causes.list, time->causes.count, sizeof(*time->causes.list), by_time);
}

double gf_gpu_share(const struct gf_gpu_time *time, const struct gf_gpu_parts *parts,
                    const char *name)
{
    for (unsigned i = 0; i < parts->count && time->s > 0; i++)
        if (strcmp(parts->list[i].name, name) == 0)
            return parts->list[i].s / time->s;
    return 0;
}

void gf_logged_gpu_add(struct gf_logged_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity)
{
    const double after = activity->to - gf_max(activity->from, job->since);
    const double part = after > 0 ? after / (activity->to - activity->from) : 0;
    double s = 0;

    for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++)
        s += part * activity->state_s[i];
    if (s <= 0)
        return;
    sum->is_several |= sum->s > 0 && sum->process != activity->process;
    sum->process = activity->process;
    sum->s += s;
    sum->empty_s += part * activity->state_s[GF_ACTIVITY_EMPTY];
    sum->copying_s += part * activity->state_s[GF_ACTIVITY_COPYING];
}
