/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/lanes.h"

#include <stdlib.h>

const char *const gf_lane_kinds[GF_LANE_KINDS] = {"gpu", "copies", "steps", "thread"};

/* A thread or a process that may get a lane. Those with the most time `s` get one. */
struct candidate {
    uint32_t number;
    double s;
};

struct work {
    const struct gf_job *job;
    struct candidate *threads, *processes, *order;
    bool *has[GF_LANE_THREAD]; /* by process */
};

static int by_time(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;

    if (one->s < other->s || one->s > other->s)
        return one->s > other->s ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

static int by_rank(const void *a, const void *b, void *job)
{
    const struct gf_job_process *processes = ((const struct gf_job *)job)->processes;
    const struct candidate *one = a, *other = b;
    const int64_t x = processes[one->number].rank, y = processes[other->number].rank;

    /* Processes without a rank are the last, because -1 is the largest unsigned number. */
    if (x != y)
        return (uint64_t)x < (uint64_t)y ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

static bool begin_work(struct work *work, const struct gf_job *job)
{
    bool whole;

    work->job = job;
    work->threads = calloc(job->thread_count + 1, sizeof(*work->threads));
    work->processes = calloc(job->process_count + 1, sizeof(*work->processes));
    work->order = calloc(job->process_count + 1, sizeof(*work->order));
    whole = work->threads && work->processes && work->order;
    for (int kind = 0; kind < GF_LANE_THREAD; kind++) {
        work->has[kind] = calloc(job->process_count + 1, sizeof(bool));
        whole = whole && work->has[kind];
    }
    for (size_t i = 0; whole && i < job->thread_count; i++)
        work->threads[i].number = (uint32_t)i;
    for (size_t i = 0; whole && i < job->process_count; i++)
        work->processes[i].number = work->order[i].number = (uint32_t)i;
    return whole;
}

static void free_work(struct work *work)
{
    free(work->threads);
    free(work->processes);
    free(work->order);
    for (int kind = 0; kind < GF_LANE_THREAD; kind++)
        free(work->has[kind]);
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
                work->has[GF_LANE_GPU][activity->process] = true;
        if (activity->bytes[0] + activity->bytes[1] > 0)
            work->has[GF_LANE_COPIES][activity->process] = true;
        work->processes[activity->process].s += 1e-9 + activity->state_s[0];
    }
    for (size_t i = 0; i < job->mark_count; i++) {
        work->has[GF_LANE_STEPS][job->marks[i].process] = true;
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
    int *of =
        kind == GF_LANE_THREAD ? &lanes->of_thread[thread] : &lanes->of_process[kind][process];

    *of = (int)lanes->count;
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
        for (int kind = 0; kind < GF_LANE_THREAD; kind++)
            work->has[kind][work->processes[i].number] = false;
    if (job->process_count)
        qsort_r(work->order, job->process_count, sizeof(*work->order), by_rank,
                (void *)(uintptr_t)job);
    for (size_t i = 0; i < job->process_count; i++) {
        const uint32_t process = work->order[i].number;
        for (int kind = 0; kind < GF_LANE_THREAD; kind++)
            if (work->has[kind][process])
                add_lane(lanes, kind, process, 0);
        for (size_t k = 0; k < threads; k++)
            if (job->threads[work->threads[k].number].process == process)
                add_lane(lanes, GF_LANE_THREAD, process, work->threads[k].number);
    }
}

static int *no_lanes(size_t count)
{
    int *list = malloc((count + 1) * sizeof(*list));

    for (size_t i = 0; list && i < count; i++)
        list[i] = -1;
    return list;
}

bool gf_lanes_make(const struct gf_answer *answer, struct gf_lanes *ret)
{
    const struct gf_job *job = answer->job;
    struct work work = {0};
    bool whole = begin_work(&work, job);

    *ret = (struct gf_lanes){
        .list = calloc(GF_LANES_THREADS + GF_LANE_THREAD * GF_LANES_PROCESSES, sizeof(*ret->list)),
        .of_thread = no_lanes(job->thread_count),
    };
    whole = whole && ret->list && ret->of_thread;
    for (int kind = 0; kind < GF_LANE_THREAD; kind++) {
        ret->of_process[kind] = no_lanes(job->process_count);
        whole = whole && ret->of_process[kind];
    }
    if (whole) {
        add_up(&work);
        make_list(&work, ret);
    }
    free_work(&work);
    return whole;
}

void gf_lanes_free(struct gf_lanes *lanes)
{
    free(lanes->list);
    free(lanes->of_thread);
    for (int kind = 0; kind < GF_LANE_THREAD; kind++)
        free(lanes->of_process[kind]);
    *lanes = (struct gf_lanes){0};
}

const char *gf_lane_name(const struct gf_job *job, const struct gf_lane *lane, char *buf,
                         size_t size)
{
    static const char *const words[] = {"GPU", "copies", "steps"};
    const struct gf_job_process *process = &job->processes[lane->process];

    if (lane->kind == GF_LANE_THREAD)
        gf_tally_label(job, GF_BY_THREAD, lane->thread, buf, size);
    else if (process->rank >= 0)
        snprintf(buf, size, "rank %lld: %s", (long long)process->rank, words[lane->kind]);
    else
        snprintf(buf, size, "process %lld: %s", (long long)process->pid, words[lane->kind]);
    return buf;
}
