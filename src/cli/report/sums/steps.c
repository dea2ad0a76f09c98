/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/steps.h"

#include <stdlib.h>
#include <string.h>

#define SLOWEST 1000 /* stalls are summed only for this many of the longest steps */

static int by_length(const void *a, const void *b)
{
    const struct gf_step *one = a, *other = b;

    if (one->has_end != other->has_end)
        return one->has_end ? -1 : 1;
    if (one->s < other->s || one->s > other->s)
        return one->s > other->s ? -1 : 1;
    if (one->at < other->at || one->at > other->at)
        return one->at < other->at ? -1 : 1;
    return one->process < other->process ? -1 : one->process > other->process;
}

/*
 * Makes a step of each mark. Goes backwards through the marks, so that the next mark of the
 * process, which ends the step, is already known.
 */
static void pair_marks(const struct gf_job *job, struct gf_steps *steps)
{
    uint32_t *next = malloc((job->process_count + 1) * sizeof(*next));

    for (size_t i = 0; next && i < job->process_count; i++)
        next[i] = UINT32_MAX;
    for (size_t i = job->mark_count; next && i-- > 0;) {
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
    free(next);
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
    const uint32_t known = keys.count;
    for (size_t i = 0; known && i < job->stall_count; i++) {
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
    struct gf_steps steps = {.list = calloc(job->mark_count + 1, sizeof(*steps.list))};

    if (!steps.list)
        return steps;
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

void gf_steps_free(struct gf_steps *steps)
{
    free(steps->list);
    *steps = (struct gf_steps){0};
}
