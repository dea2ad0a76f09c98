/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/step_onset.h"

#include "base/base.h"

#include <stdlib.h>

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

static int by_process_and_time(const void *a, const void *b)
{
    const struct point *one = a, *other = b;

    if (one->process != other->process)
        return one->process < other->process ? -1 : 1;
    if (one->at < other->at || one->at > other->at)
        return one->at < other->at ? -1 : 1;
    return one->step < other->step ? -1 : one->step > other->step;
}

static double median(const struct point *list, size_t count, double *buf)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = list[i].s;
    qsort(buf, count, sizeof(*buf), gf_by_double);
    return buf[count / 2];
}

/*
 * Finds the split that explains most of the variance of the steps' durations (least squares), with
 * longer steps after the split. Returns the index of the first step after it; 0 without such a
 * split.
 */
static size_t split_of(const struct point *list, size_t count, double most)
{
    const size_t edge = gf_max((size_t)EDGE, count / 16);
    double total = 0, before = 0, best = 0;
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        total += gf_min(list[i].s, most);
    for (size_t i = 1; i + edge <= count; i++) {
        before += gf_min(list[i - 1].s, most);
        if (i < edge)
            continue;
        const double early = before / (double)i, late = (total - before) / (double)(count - i);
        const double gain = (late - early) * (late - early) * (double)i * (double)(count - i);
        if (late > early && gain > best) {
            best = gain;
            at = i;
        }
    }
    return at;
}

static struct gf_step_onset onset_of(const struct point *list, size_t count, double *buf)
{
    const size_t at = split_of(list, count, CLIP * median(list, count, buf));

    if (!at)
        return (struct gf_step_onset){0};
    const double before = median(list, at, buf), after = median(list + at, count - at, buf);
    if (after < LEAST_FACTOR * before)
        return (struct gf_step_onset){0};
    return (struct gf_step_onset){list[at].step, list[at].at, before, after};
}

static int by_onset(const void *a, const void *b)
{
    const struct gf_step_onset *one = a, *other = b;
    return one->at < other->at ? -1 : one->at > other->at;
}

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
    struct point *list = calloc(steps->ended + 1, sizeof(*list));
    double *buf = calloc(steps->ended + 1, sizeof(*buf));
    struct gf_step_onset *onsets = calloc(job->process_count + 1, sizeof(*onsets)), ret = {0};
    size_t count = 0;

    for (size_t i = 0; list && buf && i < steps->ended; i++)
        if (rank < 0 || job->processes[steps->list[i].process].rank == rank)
            list[count++] = (struct point){steps->list[i].process, steps->list[i].step,
                                           steps->list[i].at, steps->list[i].s};
    if (count && onsets) {
        qsort(list, count, sizeof(*list), by_process_and_time);
        ret = common_onset(list, count, buf, onsets);
    }
    free(list);
    free(buf);
    free(onsets);
    return ret;
}
