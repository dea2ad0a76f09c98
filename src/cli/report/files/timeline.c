/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/timeline.h"

#include "cli/report/files/lanes.h"

#include <stdlib.h>

#define LENGTHS 34 /* powers of two of microseconds */

/* Numbers the texts that the page uses, in the order of their first use. */
struct texts {
    const struct gf_job *job;
    json_t *list;
    int *number; /* index: a text of the job; -1: not on the page yet */
};

static int text_of(struct texts *texts, uint32_t text, const char *empty)
{
    const char *words = gf_job_text(texts->job, text);

    if (texts->number[text] < 0) {
        texts->number[text] = (int)json_array_size(texts->list);
        json_array_append_new(texts->list, json_string(*words ? words : empty));
    }
    return texts->number[text];
}

static bool begin_texts(struct texts *texts, const struct gf_job *job)
{
    texts->job = job;
    texts->list = json_array();
    texts->number = malloc((job->texts.count + 1) * sizeof(*texts->number));
    for (size_t i = 0; texts->number && i <= job->texts.count; i++)
        texts->number[i] = -1;
    return texts->number;
}

/* The duration of an event, and its index. */
struct ranked {
    uint32_t us, index;
};

static int longest_first(const void *a, const void *b)
{
    const struct ranked *one = a, *other = b;

    if (one->us != other->us)
        return one->us > other->us ? -1 : 1;
    return one->index < other->index ? -1 : one->index > other->index;
}

static json_t *event_of(const struct gf_answer *answer, const struct gf_stall *stall, int lane,
                        struct texts *causes, struct texts *texts)
{
    const struct gf_job *job = answer->job;

    return json_pack("[i,f,I,i,i,i,o]", lane, stall->at - answer->from, (json_int_t)stall->us,
                     text_of(causes, stall->cause, "unknown"),
                     text_of(texts, job->stacks[stall->stack].site, "(no stack)"),
                     text_of(texts, stall->call, "(no stack)"),
                     stall->step == GF_NO_STEP ? json_null() : json_integer(stall->step));
}

static bool add_events(json_t *page, const struct gf_answer *answer, const int *lanes)
{
    const struct gf_job *job = answer->job;
    struct ranked *const list = calloc(job->stall_count + 1, sizeof(*list));
    struct texts causes, texts;
    const bool has_causes = begin_texts(&causes, job), has_texts = begin_texts(&texts, job);
    const bool whole = has_causes && has_texts && list;
    json_t *events = json_array();

    for (size_t i = 0; list && i < job->stall_count; i++)
        list[i] = (struct ranked){job->stalls[i].us, (uint32_t)i};
    if (list)
        qsort(list, job->stall_count, sizeof(*list), longest_first);
    for (size_t i = 0; whole && i < job->stall_count && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_stall *stall = &job->stalls[list[i].index];
        json_array_append_new(events,
                              event_of(answer, stall, lanes[stall->thread], &causes, &texts));
    }
    json_object_set_new(page, "events", events);
    json_object_set_new(page, "causes", causes.list);
    json_object_set_new(page, "texts", texts.list);
    free(causes.number);
    free(texts.number);
    free(list);
    return whole;
}

static int bin_of(const struct gf_answer *answer, double time)
{
    const double span = answer->to - answer->from;
    const double bin = span > 0 ? (time - answer->from) / span * GF_TIMELINE_BINS : 0;

    return bin > 0 ? (int)gf_min(bin, GF_TIMELINE_BINS - 1) : 0;
}

static json_t *bins_of(const uint64_t *bins)
{
    json_t *list = json_array();

    for (int i = 0; i < GF_TIMELINE_BINS; i++)
        if (bins[i])
            json_array_append_new(list, json_pack("[i,I]", i, (json_int_t)bins[i]));
    return list;
}

static json_t *span_of(const struct gf_answer *answer, const struct gf_activity *sum,
                       enum gf_lane_kind kind)
{
    json_t *span = json_pack("[f,f]", sum->from - answer->from, sum->to - answer->from);
    double all = 0;

    if (kind == GF_LANE_COPIES) {
        json_array_append_new(span, json_real(sum->bytes[0]));
        json_array_append_new(span, json_real(sum->bytes[1]));
        return span;
    }
    for (int i = 0; i < GF_ACTIVITY_STATES; i++)
        all += sum->state_s[i];
    for (int i = 0; i < GF_ACTIVITY_STATES; i++)
        json_array_append_new(
            span, json_integer(all > 0 ? (json_int_t)(sum->state_s[i] / all * 1000 + 0.5) : 0));
    return span;
}

static void add_activity(struct gf_activity *sum, const struct gf_activity *activity)
{
    sum->to = activity->to;
    for (int i = 0; i < GF_ACTIVITY_STATES; i++)
        sum->state_s[i] += activity->state_s[i];
    for (int i = 0; i < 2; i++)
        sum->bytes[i] += activity->bytes[i];
}

/* Returns the intervals of a process. If there are too many, joins successive intervals. */
static json_t *spans_of(const struct gf_answer *answer, const struct gf_lane *lane, size_t count)
{
    const struct gf_job *job = answer->job;
    const size_t each = (count + GF_TIMELINE_SPANS - 1) / GF_TIMELINE_SPANS;
    struct gf_activity sum = {0};
    json_t *list = json_array();
    size_t held = 0;

    for (size_t i = 0; i < job->activity_count; i++) {
        const struct gf_activity *activity = &job->activity[i];
        if (activity->process != lane->process)
            continue;
        if (!held++)
            sum = *activity;
        else
            add_activity(&sum, activity);
        if (held == each) {
            json_array_append_new(list, span_of(answer, &sum, lane->kind));
            held = 0;
        }
    }
    if (held)
        json_array_append_new(list, span_of(answer, &sum, lane->kind));
    return list;
}

/* Returns the number of intervals of each process. Returns NULL if memory is short. */
static size_t *count_intervals(const struct gf_job *job)
{
    size_t *counts = calloc(job->process_count + 1, sizeof(*counts));

    for (size_t i = 0; counts && i < job->activity_count; i++)
        counts[job->activity[i].process]++;
    return counts;
}

static bool add_lanes(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_job *job = answer->job;
    uint64_t(*bins)[GF_TIMELINE_BINS] = calloc(lanes->count + 1, sizeof(*bins));
    size_t *counts = count_intervals(job);
    const bool whole = bins && counts;
    json_t *list = json_array();

    for (size_t i = 0; whole && i < job->stall_count; i++) {
        const int lane = lanes->of_thread[job->stalls[i].thread];
        if (lane >= 0)
            bins[lane][bin_of(answer, job->stalls[i].at)] += job->stalls[i].us;
    }
    for (size_t i = 0; whole && i < lanes->count; i++) {
        const struct gf_lane *lane = &lanes->list[i];
        char name[256];
        json_t *row = json_pack("{s:s,s:s}", "name", gf_lane_name(job, lane, name, sizeof(name)),
                                "kind", gf_lane_kinds[lane->kind]);
        if (lane->kind == GF_LANE_THREAD)
            json_object_set_new(row, "bins", bins_of(bins[i]));
        else if (lane->kind != GF_LANE_STEPS)
            json_object_set_new(row, "spans", spans_of(answer, lane, counts[lane->process]));
        json_array_append_new(list, row);
    }
    json_object_set_new(page, "lanes", list);
    json_object_set_new(page, "hidden", json_integer((json_int_t)lanes->hidden_threads));
    json_object_set_new(page, "hiddenProcesses", json_integer((json_int_t)lanes->hidden_processes));
    free(bins);
    free(counts);
    return whole;
}

static json_t *copy_of(const struct gf_answer *answer, const struct gf_long_copy *copy, int lane)
{
    const struct gf_job *job = answer->job;

    return json_pack("[i,f,I,I,b,s,I]", lane, copy->at - answer->from, (json_int_t)copy->us,
                     (json_int_t)copy->bytes, copy->to_device, gf_job_text(job, copy->way),
                     (json_int_t)job->threads[copy->thread].tid);
}

static bool add_copies(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_job *job = answer->job;
    struct ranked *const sorted = calloc(job->copy_count + 1, sizeof(*sorted));
    json_t *list;

    if (!sorted)
        return false;
    list = json_array();
    for (size_t i = 0; i < job->copy_count; i++)
        sorted[i] = (struct ranked){job->copies[i].us, (uint32_t)i};
    qsort(sorted, job->copy_count, sizeof(*sorted), longest_first);
    for (size_t i = 0; i < job->copy_count && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_long_copy *copy = &job->copies[sorted[i].index];
        json_array_append_new(list, copy_of(answer, copy, lanes->of_thread[copy->thread]));
    }
    json_object_set_new(page, "copyEvents", list);
    json_object_set_new(page, "copyCount", json_integer((json_int_t)job->copy_count));
    free(sorted);
    return true;
}

static void add_steps(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_steps *steps = &answer->steps;
    json_t *list = json_array();

    for (size_t i = 0; i < steps->ended && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_step *step = &steps->list[i];
        json_array_append_new(
            list, json_pack("[i,f,f,I]", lanes->of_process[GF_LANE_STEPS][step->process],
                            step->at - answer->from, step->s, (json_int_t)step->step));
    }
    json_object_set_new(page, "stepEvents", list);
    json_object_set_new(page, "stepCount", json_integer((json_int_t)steps->ended));
}

static void add_lengths(json_t *page, const struct gf_job *job)
{
    uint64_t counts[LENGTHS] = {0}, sums[LENGTHS] = {0};
    json_t *list = json_array();

    for (size_t i = 0; i < job->stall_count; i++) {
        const uint32_t us = job->stalls[i].us;
        const int power = us ? 31 - __builtin_clz(us) : 0;
        counts[power]++;
        sums[power] += us;
    }
    for (int i = 0; i < LENGTHS; i++)
        if (counts[i])
            json_array_append_new(list, json_pack("[I,I,I]", (json_int_t)1 << i,
                                                  (json_int_t)counts[i], (json_int_t)sums[i]));
    json_object_set_new(page, "lengths", list);
}

bool gf_timeline_add(json_t *page, const struct gf_answer *answer)
{
    struct gf_lanes lanes;
    const bool whole = gf_lanes_make(answer, &lanes) && add_lanes(page, answer, &lanes) &&
                       add_events(page, answer, lanes.of_thread) &&
                       add_copies(page, answer, &lanes);

    if (whole)
        add_steps(page, answer, &lanes);
    add_lengths(page, answer->job);
    gf_lanes_free(&lanes);
    return whole;
}
