/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "base/path.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"

#include <stdlib.h>

#define GROUPS_SAID 4

/* Processes that stand in one step at one line. */
struct group {
    char cause[32], at[192]; /* at: the line, or "" */
    double step, s;          /* step: -1 if unknown; s: the longest time */
    unsigned count;
};

struct standing {
    struct gf_text_pool keys; /* a key's number is the index of its group + 1 */
    struct group *list;
    size_t count;
    size_t *group_of; /* for each process: its group + 1; 0: it does not stand */
};

static void read_group(const json_t *found, struct group *ret)
{
    const char *file = gf_report_text(found, "file", 256);
    const json_t *step = gf_report_at(found, "step");

    memset(ret, 0, sizeof(*ret));
    GF_REPORT_COPY(ret->cause, found, "cause");
    ret->step = json_is_number(step) ? json_number_value(step) : -1;
    ret->s = gf_report_number(found, "s");
    if (*file)
        gf_fmt(ret->at, sizeof(ret->at), " at %s:%d in %s", gf_path_file_name(file),
               (int)gf_report_number(found, "line"), gf_report_text(found, "function", 96));
}

/*
 * Returns 1 + the index of the group, which is added to the list if it is new; 0 if memory is short.
 */
static size_t add_to_group(struct standing *standing, const struct group *one)
{
    char key[sizeof(*one) + 32];
    bool is_new;
    const int length = snprintf(key, sizeof(key), "%s\n%s\n%a", one->cause, one->at, one->step);
    const uint32_t number = gf_text_pool_add(&standing->keys, key, (size_t)length, &is_new);

    if (is_new)
        standing->list[standing->count++] = *one;
    if (!number)
        return 0;
    struct group *group = &standing->list[number - 1];
    group->s = gf_max(group->s, one->s);
    group->count++;
    return number;
}

static void find_groups(const struct gf_job *job, struct standing *ret)
{
    for (size_t i = 0; i < job->process_count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        const json_t *found = process->report && !process->excluded
                                  ? gf_report_at(process->report, "gpu_time.standstill")
                                  : NULL;
        struct group one;

        if (!json_is_object(found) || !json_is_true(gf_report_at(found, "ongoing")))
            continue;
        read_group(found, &one);
        ret->group_of[i] = add_to_group(ret, &one);
    }
}

GF_COMPARATOR(by_number, int64_t, gf_order(*one, *other))

/* Writes "ranks 0, 1, 4-6", or "process 4711" without ranks. */
static void say_members(const struct gf_job *job, const struct standing *standing, size_t group,
                        struct gf_textbuf *out)
{
    int64_t *rank = gf_cli_alloc(standing->list[group].count, sizeof(*rank));
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++) {
        if (standing->group_of[i] != group + 1)
            continue;
        if (job->processes[i].rank < 0) {
            gf_say(out, "%s", gf_job_process_name(&job->processes[i]));
            free(rank);
            return;
        }
        rank[count++] = job->processes[i].rank;
    }
    qsort(rank, count, sizeof(*rank), by_number);
    for (size_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end + 1 < count && rank[end + 1] <= rank[end] + 1; end++)
            ;
        gf_say(out, "%s%ld", i ? ", " : rank[0] < rank[count - 1] ? "ranks " : "rank ", rank[i]);
        if (rank[end] > rank[i])
            gf_say(out, "%s%ld", rank[end] > rank[i] + 1 ? "-" : ", ", rank[end]);
    }
    free(rank);
}

/* The group with the fewest processes comes first, because the others may wait for it. */
static int by_count(const void *a, const void *b)
{
    const struct group *one = *(const struct group *const *)a,
                       *other = *(const struct group *const *)b;

    return gf_order(one->count, other->count) ?: gf_order(one, other);
}

static uint64_t whole(double number)
{
    return gf_min(gf_max(number, 0.0), 1e15);
}

static void say_groups(struct gf_answer *answer, const struct standing *standing,
                       const struct group **order)
{
    char text[1024] = "";
    struct gf_textbuf out = {text, sizeof(text), 0};

    for (size_t i = 0; i < gf_min(standing->count, (size_t)GROUPS_SAID); i++) {
        const struct group *group = order[i];
        if (i)
            gf_say(&out, "; ");
        say_members(answer->job, standing, (size_t)(group - standing->list), &out);
        if (group->step >= 0)
            gf_say(&out, " in step %lu", whole(group->step));
        gf_say(&out, " for %lu s: %s%s", whole(group->s), gf_help_words(gf_help_host, group->cause),
               group->at);
    }
    if (standing->count > GROUPS_SAID)
        gf_say(&out, "; %zu more places", standing->count - GROUPS_SAID);
    gf_lines_add(&answer->verdict, "No step ended any more when the reports were written: %s.",
                 text);
}

bool gf_standing_say(struct gf_answer *answer)
{
    const size_t most = answer->job->process_count;
    struct standing standing = {.list = gf_cli_alloc(most, sizeof(*standing.list)),
                                .group_of = gf_cli_alloc(most, sizeof(*standing.group_of))};
    const struct group **order = gf_cli_alloc(most, sizeof(void *));

    find_groups(answer->job, &standing);
    for (size_t i = 0; i < standing.count; i++)
        order[i] = &standing.list[i];
    qsort(order, standing.count, sizeof(void *), by_count);
    if (standing.count)
        say_groups(answer, &standing, order);
    free(order);
    gf_text_pool_free(&standing.keys);
    free(standing.list);
    free(standing.group_of);
    return standing.count > 0;
}
