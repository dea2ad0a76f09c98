/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/reported_steps.h"

#include "base/base.h"
#include "cli/report/input/report_file.h"

#include <stdlib.h>
#include <string.h>

static double seconds_at(const json_t *object, const char *name)
{
    return gf_max(gf_report_number(object, name), 0.0) / 1000;
}

/* The cause of a stall or of an idle GPU, and the time of the difference. */
static void read_detail(const json_t *slowest, struct gf_reported_steps *ret)
{
    static const struct {
        const char *difference, *cause, *time;
    } rows[] = {
        {"stall", "stall", "stall_ms"},  {"idle", "cause", "idle_ms"},
        {"quota", NULL, "throttled_ms"}, {"communication", NULL, "communicating_ms"},
        {"clock", NULL, "clock_ms"},     {"work", NULL, "queued_ms"},
    };

    gf_report_text(slowest, "difference", ret->difference, sizeof(ret->difference));
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        if (strcmp(ret->difference, rows[i].difference) != 0)
            continue;
        if (rows[i].cause)
            gf_report_text(slowest, rows[i].cause, ret->detail, sizeof(ret->detail));
        ret->detail_s = seconds_at(slowest, rows[i].time);
    }
}

static void read_steps(const json_t *times, struct gf_reported_steps *ret)
{
    const json_t *wait = gf_report_at(times, "data_wait_ms");

    gf_report_text(times, "source", ret->source, sizeof(ret->source));
    ret->copy_bytes = gf_max(gf_report_number(times, "copy_bytes"), 0.0);
    ret->steps = gf_report_number(times, "steps");
    ret->slow = gf_max(gf_report_number(times, "slow_steps"), 0.0);
    ret->p50_s = seconds_at(times, "p50_ms");
    ret->p99_s = seconds_at(times, "p99_ms");
    ret->max_s = seconds_at(times, "max_ms");
    ret->data_wait_s = json_is_number(wait) ? seconds_at(times, "data_wait_ms") : -1;
    const json_t *slowest = json_array_get(gf_report_at(times, "slow"), 0);
    if (slowest)
        read_detail(slowest, ret);
}

static int by_median(const void *a, const void *b)
{
    const struct gf_reported_steps *one = a, *other = b;

    if (one->p50_s < other->p50_s || one->p50_s > other->p50_s)
        return one->p50_s > other->p50_s ? -1 : 1;
    return one->process < other->process ? -1 : one->process > other->process;
}

struct gf_reported_list gf_reported_steps_find(const struct gf_job *job)
{
    struct gf_reported_list ret = {.list = calloc(job->process_count + 1, sizeof(*ret.list))};

    for (size_t i = 0; ret.list && i < job->process_count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        const json_t *times = process->report && !process->excluded
                                  ? gf_report_at(process->report, "step_times")
                                  : NULL;
        if (!json_is_object(times) || gf_report_number(times, "steps") < 1)
            continue;
        ret.list[ret.count] = (struct gf_reported_steps){.process = (uint32_t)i};
        read_steps(times, &ret.list[ret.count++]);
    }
    if (ret.count)
        qsort(ret.list, ret.count, sizeof(*ret.list), by_median);
    return ret;
}

void gf_reported_steps_free(struct gf_reported_list *steps)
{
    free(steps->list);
    *steps = (struct gf_reported_list){0};
}
