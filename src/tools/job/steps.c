/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_tables.h"

#include "tools/common/cli.h"
#include "tools/job/job_input.h"

#include <stdlib.h>

#define SLOWEST 1000 /* stalls are summed only for this many of the longest steps */

GF_COMPARATOR(by_length, struct gf_step,
              (gf_order(other->has_end, one->has_end) ?: gf_order(other->s, one->s))
                  ?: (gf_order(one->at, other->at) ?: gf_order(one->process, other->process)))

/*
 * Makes a step of each mark. Goes backwards through the marks, so that the next mark of the
 * process, which ends the step, is already known.
 */
static void pair_marks(const struct gf_job *job, struct gf_steps *steps)
{
    GF_OWNED uint32_t *next = gf_cli_alloc(job->process_count, sizeof(*next));

    for (size_t i = 0; i < job->process_count; i++)
        next[i] = UINT32_MAX;
    for (size_t i = job->mark_count; i-- > 0;) {
        const struct gf_step_mark *mark = &job->marks[i];
        const uint32_t end = next[mark->process];
        next[mark->process] = (uint32_t)i;
        if (!mark->step)
            continue;
        const bool has_end = end != UINT32_MAX && !mark->gap;
        steps->list[steps->count++] = (struct gf_step){
            .step = mark->step,
            .at = mark->at,
            .s = has_end ? gf_max(job->marks[end].at - mark->at, 0.0) : 0,
            .process = mark->process,
            .thread = mark->thread,
            .has_end = has_end,
            .is_open = !has_end && !mark->gap,
        };
        steps->ended += has_end;
    }
}

struct key {
    uint64_t step;
    uint64_t process;
};

/*
 * Sums the stalls of the longest steps. A text pool serves as the map from a process and a step
 * number to the step.
 */
static void add_stalls(const struct gf_job *job, struct gf_steps *steps)
{
    struct gf_text_pool keys = {0};
    struct gf_step *found[SLOWEST + 1] = {NULL};
    bool is_new;

    for (size_t i = 0; i < steps->ended && i < SLOWEST; i++) {
        const struct key key = {steps->list[i].step, steps->list[i].process};
        const uint32_t number = gf_text_pool_add(&keys, (const char *)&key, sizeof(key), &is_new);
        if (is_new && number <= SLOWEST)
            found[number] = &steps->list[i];
    }
    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        const struct key key = {(uint64_t)stall->step, stall->process};
        if (stall->step == GF_NO_STEP)
            continue;
        const uint32_t number = gf_text_pool_find(&keys, (const char *)&key, sizeof(key));
        if (number && number <= SLOWEST && found[number])
            found[number]->stall_us += stall->us;
    }
    gf_text_pool_free(&keys);
}

struct gf_steps gf_steps_find(const struct gf_job *job)
{
    struct gf_steps steps = {.list = gf_cli_alloc(job->mark_count, sizeof(*steps.list))};

    pair_marks(job, &steps);
    qsort(steps.list, steps.count, sizeof(*steps.list), by_length);
    if (!steps.ended)
        return steps;
    steps.median_s = steps.list[steps.ended / 2].s;
    while (steps.slow < steps.ended && steps.list[steps.slow].s > GF_SLOW_STEP * steps.median_s)
        steps.slow++;
    add_stalls(job, &steps);
    return steps;
}

#define LEAST_STEPS 32
#define EDGE 8            /* least number of steps before and after the change */
#define LEAST_FACTOR 1.25 /* least ratio of the medians after and before the change */
/*
 * A step that is longer than this many medians counts as this many medians, so that a single long
 * step does not look like a change.
 */
#define CLIP 3

/* The data of a step that the search uses. */
struct point {
    uint32_t process;
    uint64_t step;
    double at, s;
};

GF_COMPARATOR(by_process_and_time, struct point,
              gf_order(one->process, other->process)
                  ?: (gf_order(one->at, other->at) ?: gf_order(one->step, other->step)))

static double median(const struct point *list, size_t count, double *buf)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = list[i].s;
    qsort(buf, count, sizeof(*buf), gf_by_double);
    return buf[count / 2];
}

size_t gf_split_find(const double *values, size_t count, size_t edge, double factor,
                     double *ret_early, double *ret_late)
{
    double total = 0, before = 0, best = 0;
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        total += values[i];
    for (size_t i = 1; i + edge <= count; i++) {
        before += values[i - 1];
        if (i < edge)
            continue;
        const double early = before / (double)i, late = (total - before) / (double)(count - i);
        const double gain = (late - early) * (late - early) * (double)i * (double)(count - i);
        if (late > factor * early && gain > best) {
            best = gain;
            at = i;
            *ret_early = early;
            *ret_late = late;
        }
    }
    return at;
}

static struct gf_step_onset onset_of(const struct point *list, size_t count, double *buf)
{
    const double most = CLIP * median(list, count, buf);
    double early, late;

    for (size_t i = 0; i < count; i++)
        buf[i] = gf_min(list[i].s, most);
    const size_t at = gf_split_find(buf, count, gf_max((size_t)EDGE, count / 16), 1, &early, &late);
    if (!at)
        return (struct gf_step_onset){0};
    const double before = median(list, at, buf), after = median(list + at, count - at, buf);
    if (after < LEAST_FACTOR * before)
        return (struct gf_step_onset){0};
    return (struct gf_step_onset){list[at].step, list[at].at, before, after};
}

GF_COMPARATOR(by_onset, struct gf_step_onset, gf_order(one->at, other->at))

/*
 * Searches the steps of each process separately. If at least half of the processes became slower,
 * returns the median of the steps at which they did. A search in the steps of all processes
 * together would find the time at which fast processes end.
 */
static struct gf_step_onset common_onset(const struct point *list, size_t count, double *buf,
                                         struct gf_step_onset *onsets)
{
    size_t processes = 0, found = 0;

    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && list[end].process == list[i].process; end++) {
        }
        if (end - i < LEAST_STEPS)
            continue;
        processes++;
        onsets[found] = onset_of(list + i, end - i, buf);
        found += onsets[found].step != 0;
    }
    if (!found || 2 * found < processes)
        return (struct gf_step_onset){0};
    qsort(onsets, found, sizeof(*onsets), by_onset);
    return onsets[found / 2];
}

struct gf_step_onset gf_step_onset_find(const struct gf_job *job, const struct gf_steps *steps,
                                        int64_t rank)
{
    GF_OWNED struct point *list = gf_cli_alloc(steps->ended, sizeof(*list));
    GF_OWNED double *buf = gf_cli_alloc(steps->ended, sizeof(*buf));
    GF_OWNED struct gf_step_onset *onsets = gf_cli_alloc(job->process_count, sizeof(*onsets));
    size_t count = 0;

    for (size_t i = 0; i < steps->ended; i++)
        if (rank < 0 || job->processes[steps->list[i].process].rank == rank)
            list[count++] = (struct point){steps->list[i].process, steps->list[i].step,
                                           steps->list[i].at, steps->list[i].s};
    qsort(list, count, sizeof(*list), by_process_and_time);
    return common_onset(list, count, buf, onsets);
}

static double seconds_at(const json_t *object, const char *name)
{
    return gf_report_number(object, name) / 1000;
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

    GF_REPORT_COPY(ret->difference, slowest, "difference");
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        if (strcmp(ret->difference, rows[i].difference) != 0)
            continue;
        if (rows[i].cause)
            GF_REPORT_COPY(ret->detail, slowest, rows[i].cause);
        ret->detail_s = seconds_at(slowest, rows[i].time);
    }
}

static void read_steps(const json_t *times, struct gf_reported_steps *ret)
{
    const json_t *wait = gf_report_at(times, "data_wait_ms");

    GF_REPORT_COPY(ret->source, times, "source");
    ret->copy_bytes = gf_report_number(times, "copy_bytes");
    ret->steps = gf_report_number(times, "steps");
    ret->slow = gf_report_number(times, "slow_steps");
    ret->p50_s = seconds_at(times, "p50_ms");
    ret->p99_s = seconds_at(times, "p99_ms");
    ret->max_s = seconds_at(times, "max_ms");
    ret->data_wait_s = json_is_number(wait) ? seconds_at(times, "data_wait_ms") : -1;
    const json_t *slowest = json_array_get(gf_report_at(times, "slow"), 0);
    if (slowest)
        read_detail(slowest, ret);
}

GF_COMPARATOR(by_median, struct gf_reported_steps,
              gf_order(other->p50_s, one->p50_s) ?: gf_order(one->process, other->process))

struct gf_reported_list gf_reported_steps_find(const struct gf_job *job)
{
    struct gf_reported_list ret = {.list = gf_cli_alloc(job->process_count, sizeof(*ret.list))};

    for (size_t i = 0; i < job->process_count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        const json_t *times = process->report && !process->excluded
                                  ? gf_report_at(process->report, "step_times")
                                  : NULL;
        if (!json_is_object(times) || gf_report_number(times, "steps") < 1)
            continue;
        ret.list[ret.count] = (struct gf_reported_steps){.process = (uint32_t)i};
        read_steps(times, &ret.list[ret.count++]);
    }
    qsort(ret.list, ret.count, sizeof(*ret.list), by_median);
    return ret;
}
