/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/top/top.h"

#include "base/fmt.h"
#include "tools/job/job_input.h"
#include "tools/job/job_tables.h"

static double copied(const struct gf_copies *copies, enum gf_direction direction)
{
    double bytes = 0;

    for (int way = 0; way < GF_WAYS; way++)
        bytes += copies->ways[direction][way].bytes;
    return bytes;
}

void gf_process_figures_add(struct gf_top_history *history, const struct gf_snapshot *snapshot)
{
    const json_t *report = snapshot->report;
    struct gf_copies copies = {0};
    gf_copies_add(&copies, report);
    struct gf_top_sums now = {
        .seconds = gf_report_number(report, "ran_s"),
        .steps = gf_report_number(report, "steps.ended"),
        .detected_steps = gf_report_number(report, "step_times.steps"),
        .to_device = copied(&copies, GF_TO_DEVICE),
        .from_device = copied(&copies, GF_FROM_DEVICE),
        .stalls_us = gf_report_number(report, "stalls.us"),
    };

    gf_gpu_seconds_add(report, &now.gpu_s, &now.gpu_empty_s);

    /* A new process may have the id of a process that has ended. */
    if (history->pid != snapshot->pid || now.seconds < history->now.seconds)
        *history = (struct gf_top_history){.pid = snapshot->pid};
    if (!report || now.seconds <= history->now.seconds)
        return;
    history->before = history->now;
    history->now = now;
}

/*
 * Copies to buf the name of the row whose number `field` is largest and exceeds *ret_most, and sets
 * *ret_most. If there is no such row, buf stays as it is.
 */
static void find_most(const json_t *rows, const char *field, double *ret_most, char *buf,
                      size_t size)
{
    const char *name;
    json_t *row;

    json_object_foreach((json_t *)(uintptr_t)rows, name, row) {
        const double value = gf_report_number(row, field);
        if (value > *ret_most) {
            *ret_most = value;
            snprintf(buf, size, "%s", name);
        }
    }
    gf_plain_text(buf);
}

/* Returns the share of the GPUs' time without work between two reports; -1 if unknown. */
static double idle_share(const struct gf_top_sums *now, const struct gf_top_sums *before)
{
    const double whole = now->gpu_s - before->gpu_s, empty = now->gpu_empty_s - before->gpu_empty_s;
    return whole > 0 ? gf_max(0.0, gf_min(empty / whole, 1.0)) : -1;
}

void gf_process_figures_read(const struct gf_snapshot *snapshot,
                             const struct gf_top_history *history, struct gf_process_figures *ret)
{
    const json_t *report = snapshot->report, *gpus = json_object_get(report, "gpus");
    const struct gf_top_sums now = history->now, from = history->before;
    const double passed = now.seconds > from.seconds ? now.seconds - from.seconds : 1;
    double most = 0, most_idle = 0;
    json_t *device;
    size_t i;

    *ret = (struct gf_process_figures){
        .rank = gf_report_rank(report),
        .ran_s = now.seconds,
        .steps = (now.steps - from.steps) / passed,
        .marks_steps = json_is_object(gf_report_at(report, "steps")),
        .detected_steps = -1,
        .to_device = (now.to_device - from.to_device) / passed,
        .from_device = (now.from_device - from.from_device) / passed,
        .stalled = (now.stalls_us - from.stalls_us) / passed / 1e6,
        .idle = idle_share(&now, &from),
        .is_bound = json_is_true(gf_report_at(report, "binding.in_force")),
    };
    if (!ret->marks_steps && json_is_object(gf_report_at(report, "step_times")))
        ret->detected_steps = gf_max((now.detected_steps - from.detected_steps) / passed, 0.0);
    json_array_foreach(gf_report_at(report, "gpu_time.devices"), i, device)
        find_most(gf_report_at(device, "causes"), "s", &most_idle, ret->idle_cause,
                  sizeof(ret->idle_cause));
    find_most(gf_report_at(report, "stalls.causes"), "us", &most, ret->stall_cause,
              sizeof(ret->stall_cause));
    if (json_array_size(gpus))
        GF_REPORT_COPY(ret->gpu, json_array_get(gpus, 0), "name");
}
