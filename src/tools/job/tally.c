/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_tables.h"

#include "tools/common/text.h"

#include <stdlib.h>

const char *const gf_by_names[GF_BY_COUNT] = {"cause", "site", "rank", "step", "thread"};

/* Sums of the stalls that have the same pair of keys. */
struct pairs {
    struct gf_text_pool keys;  /* a key's number is the index of its pair + 1 */
    struct gf_tally_row *list; /* main is the second key, and main_us the sum */
    size_t count;
};

int64_t gf_tally_key(const struct gf_job *job, const struct gf_stall *stall, enum gf_by by)
{
    switch (by) {
    case GF_BY_CAUSE:
        return stall->cause;
    case GF_BY_SITE:
        return job->stacks[stall->stack].site;
    case GF_BY_RANK:
        return job->processes[stall->process].rank;
    case GF_BY_STEP:
        return stall->step;
    default:
        return stall->thread;
    }
}

static struct gf_tally_row *pair_of(struct pairs *pairs, int64_t key, int64_t second)
{
    const int64_t both[2] = {key, second};
    bool is_new;
    const uint32_t number =
        gf_text_pool_add(&pairs->keys, (const char *)both, sizeof(both), &is_new);

    if (is_new)
        *GF_JOB_ADD(pairs->list, pairs->count) = (struct gf_tally_row){.key = key, .main = second};
    return &pairs->list[number - 1];
}

static void add(struct gf_tally_row *row, const struct gf_tally_row *other)
{
    if (!row->count || other->first < row->first)
        row->first = other->first;
    row->last = gf_max(row->last, other->last);
    row->count += other->count;
    row->us += other->us;
    row->longest_us = gf_max(row->longest_us, other->longest_us);
}

GF_COMPARATOR(by_sum, struct gf_tally_row,
              gf_order(other->us, one->us) ?: gf_order(one->key, other->key))

/* Sorts rows that are in the order of their keys. */
static void sort_by_sum(struct gf_tally *tally)
{
    for (uint32_t i = 0; i < tally->count; i++)
        tally->rows[i].nth = i;
    if (tally->count)
        qsort(tally->rows, tally->count, sizeof(*tally->rows), by_sum);
    for (uint32_t i = 0; i < tally->count; i++)
        tally->rows[tally->rows[i].nth].at = i;
}

struct gf_tally gf_tally(const struct gf_job *job, enum gf_by by, enum gf_by second)
{
    struct gf_tally tally = {.by = by, .second = second};
    struct pairs pairs = {0};

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        const int64_t key = gf_tally_key(job, stall, by);
        if (by == GF_BY_STEP && key == GF_NO_STEP)
            continue;
        const struct gf_tally_row one = {.count = 1,
                                         .us = stall->us,
                                         .longest_us = stall->us,
                                         .first = stall->at,
                                         .last = stall->at};
        struct gf_tally_row *pair = pair_of(&pairs, key, gf_tally_key(job, stall, second));
        add(pair, &one);
        pair->main_us = pair->us;
    }
    gf_text_pool_free(&pairs.keys);
    tally.rows = pairs.list;
    tally.count = pairs.count;
    gf_tally_join(&tally);
    return tally;
}

static const char *label_thread(const struct gf_job *job, int64_t key)
{
    const struct gf_job_thread *thread = &job->threads[key];
    const struct gf_job_process *process = &job->processes[thread->process];
    const char *name = gf_job_text(job, thread->name), *where = "";

    if (process->rank >= 0)
        where = gf_text(", rank %ld", process->rank);
    else if (thread->tid != process->pid)
        where = gf_text(" of process %ld", process->pid);
    return gf_text("%s %ld%s", *name ? name : "thread", thread->tid, where);
}

const char *gf_tally_label(const struct gf_job *job, enum gf_by by, int64_t key)
{
    const char *text;

    switch (by) {
    case GF_BY_CAUSE:
        text = gf_job_text(job, (uint32_t)key);
        return *text ? text : "unknown";
    case GF_BY_SITE:
        text = gf_job_text(job, (uint32_t)key);
        return *text ? text : "(no stack)";
    case GF_BY_RANK:
        return key < 0 ? "no rank" : gf_text("rank %ld", key);
    case GF_BY_STEP:
        return gf_text("step %ld", key);
    default:
        return label_thread(job, key);
    }
}

const struct gf_tally_row *gf_tally_find(const struct gf_tally *tally, int64_t key)
{
    const struct gf_tally_row *rows = tally->rows;
    const size_t nth = GF_FRONT_COUNT(i, tally->count, rows[rows[i].at].key < key);

    return nth < tally->count && rows[rows[nth].at].key == key ? &rows[rows[nth].at] : NULL;
}

void gf_tally_add(struct gf_tally *tally, int64_t key, uint64_t count, uint64_t us, double first,
                  double last)
{
    *GF_JOB_ADD(tally->rows, tally->count) =
        (struct gf_tally_row){.key = key, .count = count, .us = us, .first = first, .last = last};
}

/* Of the rows with one key, that with the main value is the first, and those of gf_tally_add the last. */
GF_COMPARATOR(by_key, struct gf_tally_row,
              (gf_order(one->key, other->key) ?: gf_order(other->main_us, one->main_us))
                  ?: gf_order(one->main, other->main))

void gf_tally_join(struct gf_tally *tally)
{
    size_t kept = 0;

    if (tally->count)
        qsort(tally->rows, tally->count, sizeof(*tally->rows), by_key);
    for (size_t i = 0; i < tally->count; i++) {
        if (kept && tally->rows[kept - 1].key == tally->rows[i].key)
            add(&tally->rows[kept - 1], &tally->rows[i]);
        else
            tally->rows[kept++] = tally->rows[i];
    }
    tally->count = kept;
    sort_by_sum(tally);
}

#define BINS 64
#define EDGE 6 /* least number of bins before and after the change */
#define LEAST_FACTOR 3
#define MOST_FACTOR 1000
#define LEAST_STALLS 20u
#define LEAST_SPAN_S 2

/*
 * Sets step and rank to those of the first stall at the call site. Only stalls near the change are
 * considered, because the time of the change is known only to the length of one bin.
 */
static void find_step(const struct gf_job *job, double bin_s, int64_t site, struct gf_onset *ret)
{
    const struct gf_stall *first = NULL;

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        if (gf_tally_key(job, stall, GF_BY_SITE) == site && stall->at >= ret->at - bin_s &&
            stall->at <= ret->at + 2 * bin_s && (!first || stall->at < first->at))
            first = stall;
    }
    if (!first)
        return;
    ret->step = first->step;
    ret->rank = job->processes[first->process].rank;
}

struct gf_onset gf_onset_find(const struct gf_job *job, double from, double to, int64_t site)
{
    struct gf_onset ret = {.step = GF_NO_STEP, .rank = -1};
    double sums[BINS] = {0}, early, late;
    unsigned count = 0;

    if (to - from < LEAST_SPAN_S)
        return ret;
    for (size_t i = 0; i < job->stall_count; i++) {
        const double bin = (job->stalls[i].at - from) / (to - from) * BINS;
        if (bin < 0 || bin > BINS)
            continue;
        sums[(unsigned)gf_min(bin, BINS - 1)] += job->stalls[i].us;
        count++;
    }
    const size_t at =
        count < LEAST_STALLS ? 0 : gf_split_find(sums, BINS, EDGE, LEAST_FACTOR, &early, &late);
    if (at) {
        ret.factor = late > MOST_FACTOR * early ? MOST_FACTOR : late / early;
        ret.at = from + (to - from) * (double)at / BINS;
        find_step(job, (to - from) / BINS, site, &ret);
    }
    return ret;
}
