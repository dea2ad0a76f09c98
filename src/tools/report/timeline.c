/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/report/outputs.h"

#include <stdlib.h>

/*
 * The rows of a page's timeline: each process's GPU, copies, steps and threads, in the order of the
 * ranks. The number of rows is limited to what a browser can draw.
 */

#define GF_LANES_THREADS 128
#define GF_LANES_PROCESSES 64

enum gf_lane_kind { GF_LANE_GPU, GF_LANE_COPIES, GF_LANE_STEPS, GF_LANE_THREAD, GF_LANE_KINDS };

struct gf_lane {
    enum gf_lane_kind kind;
    uint32_t process;
    uint32_t thread; /* only for the lane of a thread */
};

struct gf_lanes {
    struct gf_lane *list;
    size_t count;
    int *of_thread; /* lane of each thread; -1 without one */
    int *of_step;   /* lane of each process's steps; -1 without one */
    /*
     * Number of threads with stalls or copies, and of processes with activity or steps, that have
     * no lane.
     */
    size_t hidden_threads, hidden_processes;
};

static const char *const gf_lane_kinds[GF_LANE_KINDS] = {"gpu", "copies", "steps", "thread"};

/* A thread, process, stall or copy. Those with the most time `s` are on the page. */
struct candidate {
    uint32_t number;
    double s;
};

/* Which threads and processes get lanes. */
struct work {
    const struct gf_job *job;
    struct candidate *threads, *processes;
    bool (*has)[GF_LANE_THREAD]; /* by process and kind */
};

GF_COMPARATOR(by_time, struct candidate,
              gf_order(other->s, one->s) ?: gf_order(one->number, other->number))

static int by_rank(const void *a, const void *b, void *job)
{
    const struct gf_job_process *processes = ((const struct gf_job *)job)->processes;
    const struct candidate *one = a, *other = b;
    const int64_t x = processes[one->number].rank, y = processes[other->number].rank;

    /* Processes without a rank are the last, because -1 is the largest unsigned number. */
    if (x != y)
        return (uint64_t)x < (uint64_t)y ? -1 : 1;
    return gf_order(one->number, other->number);
}

static void add_up(struct work *work)
{
    const struct gf_job *job = work->job;

    for (size_t i = 0; i < job->stall_count; i++)
        work->threads[job->stalls[i].thread].s += job->stalls[i].us / 1e6;
    for (size_t i = 0; i < job->copy_count; i++)
        work->threads[job->copies[i].thread].s += job->copies[i].us / 1e6;
    for (size_t i = 0; i < job->activity_count; i++) {
        const struct gf_activity *activity = &job->activity[i];
        for (int state = 0; state < GF_ACTIVITY_STATES; state++)
            if (activity->state_s[state] > 0)
                work->has[activity->process][GF_LANE_GPU] = true;
        if (activity->bytes[0] + activity->bytes[1] > 0)
            work->has[activity->process][GF_LANE_COPIES] = true;
        work->processes[activity->process].s += 1e-9 + activity->state_s[GF_ACTIVITY_EMPTY];
    }
    for (size_t i = 0; i < job->mark_count; i++) {
        work->has[job->marks[i].process][GF_LANE_STEPS] = true;
        work->processes[job->marks[i].process].s += 1e-9;
    }
}

/*
 * Sorts the list by time. Returns how many candidates get a lane. *ret_hidden is the number of
 * candidates that have some time, but get no lane.
 */
static size_t choose(struct candidate *list, size_t count, size_t most, size_t *ret_hidden)
{
    size_t used = 0;

    qsort(list, count, sizeof(*list), by_time);
    while (used < count && list[used].s > 0)
        used++;
    *ret_hidden = used > most ? used - most : 0;
    return gf_min(used, most);
}

static void add_lane(struct gf_lanes *lanes, enum gf_lane_kind kind, uint32_t process,
                     uint32_t thread)
{
    if (kind == GF_LANE_THREAD)
        lanes->of_thread[thread] = (int)lanes->count;
    else if (kind == GF_LANE_STEPS)
        lanes->of_step[process] = (int)lanes->count;
    lanes->list[lanes->count++] =
        (struct gf_lane){.kind = kind, .process = process, .thread = thread};
}

static void make_list(struct work *work, struct gf_lanes *lanes)
{
    const struct gf_job *job = work->job;
    const size_t threads =
        choose(work->threads, job->thread_count, GF_LANES_THREADS, &lanes->hidden_threads);
    const size_t processes =
        choose(work->processes, job->process_count, GF_LANES_PROCESSES, &lanes->hidden_processes);
    for (size_t i = processes; i < job->process_count; i++)
        memset(work->has[work->processes[i].number], 0, sizeof(*work->has));
    qsort_r(work->processes, job->process_count, sizeof(*work->processes), by_rank,
            (void *)(uintptr_t)job);
    for (size_t i = 0; i < job->process_count; i++) {
        const uint32_t process = work->processes[i].number;
        for (int kind = 0; kind < GF_LANE_THREAD; kind++)
            if (work->has[process][kind])
                add_lane(lanes, kind, process, 0);
        for (size_t k = 0; k < threads; k++)
            if (job->threads[work->threads[k].number].process == process)
                add_lane(lanes, GF_LANE_THREAD, process, work->threads[k].number);
    }
}

/* Returns a list of -1. */
static int *no_numbers(size_t count)
{
    int *list = gf_cli_alloc(count, sizeof(*list));

    for (size_t i = 0; i < count; i++)
        list[i] = -1;
    return list;
}

/*
 * Chooses the threads with the most time in stalls and long copies, and the processes whose GPUs
 * had nothing to do for the longest time.
 */
static void gf_lanes_make(const struct gf_answer *answer, struct gf_lanes *ret)
{
    const struct gf_job *job = answer->job;
    struct work work = {
        .job = job,
        .threads = gf_cli_alloc(job->thread_count, sizeof(*work.threads)),
        .processes = gf_cli_alloc(job->process_count, sizeof(*work.processes)),
        .has = gf_cli_alloc(job->process_count, sizeof(*work.has)),
    };

    *ret = (struct gf_lanes){
        .list = gf_cli_alloc(GF_LANES_THREADS + GF_LANE_THREAD * GF_LANES_PROCESSES,
                             sizeof(*ret->list)),
        .of_thread = no_numbers(job->thread_count),
        .of_step = no_numbers(job->process_count),
    };
    for (size_t i = 0; i < job->thread_count; i++)
        work.threads[i].number = (uint32_t)i;
    for (size_t i = 0; i < job->process_count; i++)
        work.processes[i].number = (uint32_t)i;
    add_up(&work);
    make_list(&work, ret);
    free(work.threads);
    free(work.processes);
    free(work.has);
}

/*
 * Returns the name of a lane, such as "rank 3: copies" or "python3 1234, rank 3", its kind, and
 * whose lane it is, such as "rank 3".
 */
static json_t *lane_json(const struct gf_job *job, const struct gf_lane *lane)
{
    static const char *const words[] = {"GPU", "copies", "steps"};
    const char *of = gf_job_process_name(&job->processes[lane->process]);
    const char *name = lane->kind == GF_LANE_THREAD
                           ? gf_tally_label(job, GF_BY_THREAD, lane->thread)
                           : gf_text("%s: %s", of, words[lane->kind]);

    return json_pack("{s:s,s:s,s:s}", "name", name, "kind", gf_lane_kinds[lane->kind], "of", of);
}

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

static struct texts begin_texts(const struct gf_job *job)
{
    return (struct texts){job, json_array(), no_numbers(job->texts.count + 1)};
}

static json_t *event_of(const struct gf_answer *answer, const struct gf_stall *stall, int lane,
                        struct texts *causes, struct texts *texts)
{
    const struct gf_job *job = answer->job;

    return json_pack("[i,f,I,i,i,i,o,s*]", lane, stall->at - answer->from, (json_int_t)stall->us,
                     text_of(causes, stall->cause, "unknown"),
                     text_of(texts, job->stacks[stall->stack].site, "(no stack)"),
                     text_of(texts, stall->call, "(no stack)"),
                     stall->step == GF_NO_STEP ? json_null() : json_integer(stall->step),
                     lane < 0 ? gf_tally_label(job, GF_BY_THREAD, stall->thread) : NULL);
}

static void add_events(json_t *page, const struct gf_answer *answer, const int *lanes)
{
    const struct gf_job *job = answer->job;
    GF_OWNED struct candidate *const list = gf_cli_alloc(job->stall_count, sizeof(*list));
    struct texts causes = begin_texts(job), texts = begin_texts(job);
    json_t *events = json_array();

    for (size_t i = 0; i < job->stall_count; i++)
        list[i] = (struct candidate){(uint32_t)i, job->stalls[i].us};
    qsort(list, job->stall_count, sizeof(*list), by_time);
    for (size_t i = 0; i < job->stall_count && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_stall *stall = &job->stalls[list[i].number];
        json_array_append_new(events,
                              event_of(answer, stall, lanes[stall->thread], &causes, &texts));
    }
    json_object_set_new(page, "events", events);
    json_object_set_new(page, "causes", causes.list);
    json_object_set_new(page, "texts", texts.list);
    free(causes.number);
    free(texts.number);
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

static void add_lanes(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_job *job = answer->job;
    GF_OWNED uint64_t(*bins)[GF_TIMELINE_BINS] = gf_cli_alloc(lanes->count, sizeof(*bins));
    GF_OWNED size_t *intervals = gf_cli_alloc(job->process_count, sizeof(*intervals));
    json_t *list = json_array();

    for (size_t i = 0; i < job->activity_count; i++)
        intervals[job->activity[i].process]++;
    for (size_t i = 0; i < job->stall_count; i++) {
        const int lane = lanes->of_thread[job->stalls[i].thread];
        if (lane >= 0)
            bins[lane][bin_of(answer, job->stalls[i].at)] += job->stalls[i].us;
    }
    for (size_t i = 0; i < lanes->count; i++) {
        const struct gf_lane *lane = &lanes->list[i];
        json_t *row = lane_json(job, lane);
        if (lane->kind == GF_LANE_THREAD)
            json_object_set_new(row, "bins", bins_of(bins[i]));
        else if (lane->kind != GF_LANE_STEPS)
            json_object_set_new(row, "spans", spans_of(answer, lane, intervals[lane->process]));
        json_array_append_new(list, row);
    }
    json_object_set_new(page, "lanes", list);
    json_object_set_new(page, "hidden", json_integer((json_int_t)lanes->hidden_threads));
    json_object_set_new(page, "hiddenProcesses", json_integer((json_int_t)lanes->hidden_processes));
}

static json_t *copy_of(const struct gf_answer *answer, const struct gf_long_copy *copy, int lane)
{
    const struct gf_job *job = answer->job;

    return json_pack("[i,f,I,I,b,s,I]", lane, copy->at - answer->from, (json_int_t)copy->us,
                     (json_int_t)copy->bytes, copy->to_device, gf_job_text(job, copy->way),
                     (json_int_t)job->threads[copy->thread].tid);
}

static void add_copies(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_job *job = answer->job;
    GF_OWNED struct candidate *const sorted = gf_cli_alloc(job->copy_count, sizeof(*sorted));
    json_t *list = json_array();

    for (size_t i = 0; i < job->copy_count; i++)
        sorted[i] = (struct candidate){(uint32_t)i, job->copies[i].us};
    qsort(sorted, job->copy_count, sizeof(*sorted), by_time);
    for (size_t i = 0; i < job->copy_count && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_long_copy *copy = &job->copies[sorted[i].number];
        json_array_append_new(list, copy_of(answer, copy, lanes->of_thread[copy->thread]));
    }
    json_object_set_new(page, "copyEvents", list);
    json_object_set_new(page, "copyCount", json_integer((json_int_t)job->copy_count));
}

static void add_steps(json_t *page, const struct gf_answer *answer, const struct gf_lanes *lanes)
{
    const struct gf_steps *steps = &answer->steps;
    json_t *list = json_array();

    for (size_t i = 0; i < steps->ended && i < GF_TIMELINE_EVENTS; i++) {
        const struct gf_step *step = &steps->list[i];
        json_array_append_new(list,
                              json_pack("[i,f,f,I]", lanes->of_step[step->process],
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

void gf_timeline_add(json_t *page, const struct gf_answer *answer)
{
    struct gf_lanes lanes;

    gf_lanes_make(answer, &lanes);
    add_lanes(page, answer, &lanes);
    add_events(page, answer, lanes.of_thread);
    add_copies(page, answer, &lanes);
    add_steps(page, answer, &lanes);
    add_lengths(page, answer->job);
    free(lanes.list);
    free(lanes.of_thread);
    free(lanes.of_step);
}
