/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/job_activity.h"

#define INTERVALS_MAX 500000
#define COPIES_MAX 1000000
#define MONTH_MS 2.7e9

const char *const gf_activity_states[GF_ACTIVITY_STATES] = {"empty", "copying", "communicating",
                                                            "queued", "unknown"};

static bool is_to_device(struct gf_span direction)
{
    return gf_span_is(direction, "\"to_device\"");
}

static double bounded(struct gf_span value, double most)
{
    const double number = gf_span_number(value);
    return number > 0 && number < most ? number : 0;
}

/* Adds the times of a GPU's states, which are members such as "empty_ms". */
static void add_states(struct gf_activity *activity, struct gf_span gpu)
{
    struct gf_scan scan = gf_scan_begin(gpu, '{');
    struct gf_span key, value;
    char name[32];

    while (gf_scan_member(&scan, &key, &value))
        for (unsigned i = 0; i < GF_ACTIVITY_STATES; i++) {
            snprintf(name, sizeof(name), "%s_ms", gf_activity_states[i]);
            if (gf_span_is(key, name))
                activity->state_s[i] += bounded(value, MONTH_MS) / 1000;
        }
}

/* A sum of copies or a single copy, which the log writes in the same form. */
struct row {
    struct gf_span direction, way, calls, bytes, us, start, tid;
};

static bool read_row(struct gf_span object, struct row *ret)
{
    static const struct {
        const char *name;
        size_t offset;
    } members[] = {
        {"direction", offsetof(struct row, direction)},
        {"way", offsetof(struct row, way)},
        {"calls", offsetof(struct row, calls)},
        {"bytes", offsetof(struct row, bytes)},
        {"us", offsetof(struct row, us)},
        {"start", offsetof(struct row, start)},
        {"tid", offsetof(struct row, tid)},
    };
    struct gf_scan scan = gf_scan_begin(object, '{');
    struct gf_span key, value;

    *ret = (struct row){0};
    while (gf_scan_member(&scan, &key, &value))
        for (size_t i = 0; i < GF_ARRAY_LEN(members); i++)
            if (gf_span_is(key, members[i].name))
                *(struct gf_span *)(void *)((char *)ret + members[i].offset) = value;
    return gf_scan_ended(&scan) && ret->direction.size && ret->bytes.size;
}

static void add_sums(struct gf_activity *activity, struct gf_span list)
{
    struct gf_scan scan = gf_scan_begin(list, '[');
    struct gf_span element;
    struct row row;

    while (gf_scan_element(&scan, &element))
        if (read_row(element, &row))
            activity->bytes[is_to_device(row.direction) ? 0 : 1] += bounded(row.bytes, 1e18);
}

static void add_copy(struct gf_job *job, uint32_t process, const struct row *row, double shift)
{
    struct gf_long_copy *list =
        gf_job_grown(job->copies, sizeof(*list), job->copy_count, &job->copy_room);
    const uint32_t thread = gf_job_thread_of(job, process, gf_span_int(row->tid));
    const double at = gf_span_number(row->start) + shift;
    char way[32];

    if (list)
        job->copies = list;
    if (!list || thread == UINT32_MAX || job->copy_count == COPIES_MAX) {
        job->lost++;
        return;
    }
    if (at <= 0 || at > GF_TIME_MAX)
        return;
    gf_span_text(row->way, way, sizeof(way));
    list[job->copy_count++] = (struct gf_long_copy){
        .at = at,
        .bytes = (uint64_t)bounded(row->bytes, 1e18),
        .us = (uint32_t)bounded(row->us, UINT32_MAX),
        .process = process,
        .thread = thread,
        .way = gf_text_pool_put(&job->texts, way),
        .to_device = is_to_device(row->direction),
    };
}

static void add_longest(struct gf_job *job, uint32_t process, struct gf_span list, double shift)
{
    struct gf_scan scan = gf_scan_begin(list, '[');
    struct gf_span element;
    struct row row;

    while (gf_scan_element(&scan, &element))
        if (read_row(element, &row))
            add_copy(job, process, &row, shift);
}

void gf_job_activity_add(struct gf_job *job, uint32_t process, const struct gf_event *event)
{
    struct gf_activity *list =
        gf_job_grown(job->activity, sizeof(*list), job->activity_count, &job->activity_room);
    const double to = gf_event_time(event), mono = gf_span_number(event->mono);
    const double length = bounded(event->interval_ms, MONTH_MS) / 1000;
    struct gf_scan gpus = gf_scan_begin(event->gpus, '[');
    struct gf_span gpu;

    if (list)
        job->activity = list;
    if (!list || job->activity_count == INTERVALS_MAX) {
        job->lost++;
        return;
    }
    if (to <= length || length <= 0)
        return;
    struct gf_activity *activity = &list[job->activity_count++];
    *activity = (struct gf_activity){.from = to - length, .to = to, .process = process};
    while (gf_scan_element(&gpus, &gpu))
        add_states(activity, gpu);
    add_sums(activity, event->copies);
    add_longest(job, process, event->longest, to - mono);
}
