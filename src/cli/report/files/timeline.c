/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/timeline.h"

#include <stdlib.h>

#define LENGTHS 34 /* powers of two of microseconds */

/* Numbers of texts on the page, in the order of their first use. */
struct texts {
    const struct gf_job *job;
    json_t *list;
    int *number; /* by text of the job; -1: not on the page yet */
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

static int by_length(const void *a, const void *b, void *stalls)
{
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    const struct gf_stall *list = stalls;

    if (list[one].us != list[other].us)
        return list[one].us > list[other].us ? -1 : 1;
    return one < other ? -1 : one > other;
}

/* The numbers of the stalls, the longest first. */
static uint32_t *sorted_stalls(const struct gf_job *job)
{
    uint32_t *list = calloc(job->stall_count + 1, sizeof(*list));

    for (size_t i = 0; list && i < job->stall_count; i++)
        list[i] = (uint32_t)i;
    if (list && job->stalls)
        qsort_r(list, job->stall_count, sizeof(*list), by_length, job->stalls);
    return list;
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
    uint32_t *list = sorted_stalls(job);
    struct texts causes, texts;
    const bool has_causes = begin_texts(&causes, job), has_texts = begin_texts(&texts, job);
    const bool whole = has_causes && has_texts && list;
    json_t *events = json_array();

    for (size_t i = 0; whole && i < job->stall_count && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_stall *stall = &job->stalls[list[i]];
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

static json_t *lane_of(const struct gf_answer *answer, int64_t thread, const uint64_t *bins)
{
    char name[256];
    json_t *list = json_array();

    for (int i = 0; i < GF_TIMELINE_BINS; i++)
        if (bins[i])
            json_array_append_new(list, json_pack("[i,I]", i, (json_int_t)bins[i]));
    return json_pack("{s:s,s:o}", "name",
                     gf_tally_label(answer->job, GF_BY_THREAD, thread, name, sizeof(name)), "bins",
                     list);
}

static int bin_of(const struct gf_answer *answer, double time)
{
    const double span = answer->to - answer->from;
    const double bin = span > 0 ? (time - answer->from) / span * GF_TIMELINE_BINS : 0;

    return bin > 0 ? (int)gf_min(bin, GF_TIMELINE_BINS - 1) : 0;
}

static bool add_lanes(json_t *page, const struct gf_answer *answer, int *lanes)
{
    const struct gf_job *job = answer->job;
    const size_t count = gf_min(answer->threads.count, (size_t)GF_TIMELINE_LANES);
    uint64_t(*bins)[GF_TIMELINE_BINS] = calloc(count + 1, sizeof(*bins));
    json_t *list = json_array();

    for (size_t i = 0; i < job->thread_count; i++)
        lanes[i] = -1;
    for (size_t i = 0; i < count; i++)
        lanes[answer->threads.rows[i].key] = (int)i;
    for (size_t i = 0; bins && i < job->stall_count; i++)
        if (lanes[job->stalls[i].thread] >= 0)
            bins[lanes[job->stalls[i].thread]][bin_of(answer, job->stalls[i].at)] +=
                job->stalls[i].us;
    for (size_t i = 0; bins && i < count; i++)
        json_array_append_new(list, lane_of(answer, answer->threads.rows[i].key, bins[i]));
    json_object_set_new(page, "lanes", list);
    json_object_set_new(page, "hidden", json_integer((json_int_t)(answer->threads.count - count)));
    free(bins);
    return bins;
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
    int *lanes = calloc(answer->job->thread_count + 1, sizeof(*lanes));
    const bool whole = lanes && add_lanes(page, answer, lanes) && add_events(page, answer, lanes);

    add_lengths(page, answer->job);
    free(lanes);
    return whole;
}
