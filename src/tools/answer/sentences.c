/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "base/path.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>

#define P99_STEPS 100   /* with fewer steps, the 99th percentile is the longest step */
#define LEAST_WAIT 0.02 /* a smaller share of a step that waits for data is omitted */

static bool is(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

/* How the steps were found, which the reader needs to judge the numbers. */
static void say_source(struct gf_textbuf *words, const struct gf_reported_steps *steps)
{
    if (is(steps->source, "copies"))
        gf_say(words, " (a copy of %s to the GPU begins each)", gf_amount_bytes(steps->copy_bytes));
    else if (is(steps->source, "graphs"))
        gf_say(words, " (a launch of one graph begins each)");
    else if (is(steps->source, "waits"))
        gf_say(words, " (a wait for the GPU ends each)");
    else if (!is(steps->source, "marks"))
        gf_say(words, " (found by %s)", steps->source);
}

static void say_difference(struct gf_textbuf *words, const struct gf_reported_steps *steps)
{
    const char *difference = steps->difference, *time = gf_amount_time(steps->detail_s);

    if (is(difference, "stall"))
        gf_say(words, ", in which calls stalled for %s: %s", time, steps->detail);
    else if (is(difference, "idle"))
        gf_say(words, ", in which the GPU had nothing to do for %s: %s", time,
               gf_help_words(gf_help_host, steps->detail));
    else if (is(difference, "quota"))
        gf_say(words, ", in which the CPU quota stopped threads for %s", time);
    else if (is(difference, "communication"))
        gf_say(words,
               ", in which only communication was unfinished for %s: another rank may have been "
               "late",
               time);
    else if (is(difference, "clock"))
        gf_say(words, ", in which a low GPU clock cost %s", time);
    else if (is(difference, "work"))
        gf_say(words, ", in which the GPU had work for %s", time);
    else if (is(difference, "faults"))
        gf_say(words, ", with many page faults");
}

/*
 * Adds to the verdict the durations of steps that the reports have, those of the slowest process.
 * Called if no log has marks.
 */
static void gf_step_text_say(struct gf_answer *answer)
{
    const struct gf_reported_steps *steps = answer->reported_steps.list;
    char text[640];
    struct gf_textbuf words = {.buf = text, .size = sizeof(text)};

    if (!answer->reported_steps.count)
        return;
    gf_say(&words, "The median of %lu steps", (uint64_t)gf_min(steps->steps, 1e15));
    say_source(&words, steps);
    if (answer->reported_steps.count > 1)
        gf_say(&words, " of %s, the slowest of %zu,",
               gf_job_process_name(&answer->job->processes[steps->process]),
               answer->reported_steps.count);
    gf_say(&words, " is %s", gf_amount_time(steps->p50_s));
    if (steps->steps >= P99_STEPS)
        gf_say(&words, ", the 99th percentile %s", gf_amount_time(steps->p99_s));
    gf_say(&words, "; the longest took %s", gf_amount_time(steps->max_s));
    say_difference(&words, steps);
    gf_say(&words, ".");
    if (steps->data_wait_s > LEAST_WAIT * steps->p50_s)
        gf_say(&words, " The mean step waits %s for data (%s of the median).",
               gf_amount_time(steps->data_wait_s),
               gf_amount_share(steps->data_wait_s, steps->p50_s));
    gf_lines_add(&answer->verdict, "%s", text);
}

#define LITTLE_SHARE 0.01
#define NOTABLE 1.1 /* two rates that differ by less than this factor count as equal */
#define SAID_CAUSES 3
#define BUSY_SHARE 0.05 /* a GPU that has nothing to do for a smaller share counts as busy */

/* Returns a time, with the date if the job is longer than half a day. */
static const char *clock_of(const struct gf_answer *answer, double time)
{
    return gf_amount_clock(time, answer->to - answer->from > 43200);
}

const char *gf_verdict_scope(const struct gf_answer *answer)
{
    const char *ranks =
        answer->table.count ? gf_amount_of((double)answer->table.count, "rank") : "";
    const char *hosts = answer->hosts ? gf_amount_of((double)answer->hosts, "host") : "";
    const char *when =
        answer->to > 0 ? gf_text(", %s from %s to %s", gf_amount_time(answer->to - answer->from),
                                 gf_amount_clock(answer->from, true), clock_of(answer, answer->to))
                       : "";

    return gf_text("%s%s%s%s%zu process%s%s", ranks, *ranks && *hosts ? " on " : "", hosts,
                   *ranks || *hosts ? ", " : "", answer->processes,
                   answer->processes == 1 ? "" : "es", when);
}

static const char *causes_text(const struct gf_gpu_time *time)
{
    const char *text = "";

    for (unsigned i = 0; i < time->causes.count && i < SAID_CAUSES; i++) {
        const struct gf_gpu_part *cause = &time->causes.list[i];
        if (cause->s < LITTLE_SHARE * time->s)
            break;
        text = gf_text("%s%s%s %s", text, i ? ", " : ": ", gf_help_words(gf_help_host, cause->name),
                       gf_amount_share(cause->s, time->s));
        if (!i && *cause->line)
            text = gf_text("%s (at %s)", text, cause->line);
    }
    return text;
}

/* Returns "; since 08:51:09, 80 % of the time", or "" without --since or activity in a log. */
static const char *recent_text(const struct gf_answer *answer)
{
    const struct gf_logged_gpu *recent = &answer->logged_gpu;

    return answer->job->since > 0 && recent->s > 0
               ? gf_text("; since %s, %s of the time", clock_of(answer, answer->job->since),
                         gf_amount_share(recent->empty_s, recent->s))
               : "";
}

/* Without reports, the logs' activity has the states, but no causes. */
static void say_logged_gpu(struct gf_answer *answer)
{
    const struct gf_logged_gpu *gpu = &answer->logged_gpu;

    if (gpu->s > 0)
        gf_lines_add(&answer->verdict,
                     "The %s had nothing to do %s of the time; the report (GPUFEED_REPORT) says "
                     "why.",
                     gpu->is_several ? "GPUs" : "GPU", gf_amount_share(gpu->empty_s, gpu->s));
}

/*
 * Adds the sentence about the GPUs' time. It is the first one, because the other sentences explain
 * parts of that time.
 */
static void say_gpu_time(struct gf_answer *answer)
{
    const struct gf_gpu_time *time = &answer->gpu_time;
    const double empty = gf_gpu_share(time, &time->states, "empty");
    const char *gpus = time->devices > 1 ? "GPUs" : "GPU";
    const char *when = answer->job->since > 0 ? "In the whole job, the" : "The";

    if (!time->devices || time->s <= 0) {
        say_logged_gpu(answer);
        return;
    }
    const char *share = gf_amount_share(empty, 1), *recent = recent_text(answer);
    if (empty < BUSY_SHARE)
        gf_lines_add(&answer->verdict, "%s %s nearly always had work, except for %s of the time%s.",
                     when, gpus, share, recent);
    else
        gf_lines_add(&answer->verdict, "%s %s had nothing to do %s of the time%s%s.", when, gpus,
                     share, causes_text(time), recent);
}

/*
 * Returns the caller that has the most stalled time at a call site; 0 if unknown. Many call sites
 * are in helper functions, whose callers tell more.
 */
static uint32_t main_caller(const struct gf_job *job, int64_t site)
{
    GF_OWNED uint64_t *us = gf_cli_alloc(job->texts.count, sizeof(*us));
    uint32_t most = 0;

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_job_stack *stack = &job->stacks[job->stalls[i].stack];
        if (stack->site != site || !stack->caller)
            continue;
        us[stack->caller] += job->stalls[i].us;
        most = us[stack->caller] > us[most] ? stack->caller : most;
    }
    return most;
}

/* Returns the largest cause that is known; the first row if none is known. */
static const struct gf_tally_row *main_cause(const struct gf_answer *answer)
{
    for (size_t i = 0; i < answer->causes.count; i++)
        if (!is(gf_tally_label(answer->job, GF_BY_CAUSE, answer->causes.rows[i].key), "unknown"))
            return &answer->causes.rows[i];
    return answer->causes.rows;
}

/*
 * Says where, too: ", 81 % of it at train.py:4 in load, called from train.py:9 in <module>". A name of
 * a native function may be longer than gf_text permits.
 */
static void say_main_cause(struct gf_answer *answer)
{
    const struct gf_job *job = answer->job;

    if (!answer->causes.count)
        return;
    const struct gf_tally_row *row = main_cause(answer);
    const char *cause = gf_tally_label(job, GF_BY_CAUSE, row->key);
    const char *meaning = gf_help_words(gf_help_stall, cause);
    const char *site = row->main ? gf_job_text(job, (uint32_t)row->main) : "";
    const char *caller = *site ? gf_job_text(job, main_caller(job, row->main)) : "";
    const char *part = !*site ? ""
                       : row->main_us == row->us
                           ? "all"
                           : gf_amount_share((double)row->main_us, (double)row->us);
    gf_lines_add(&answer->verdict,
                 "The main %scause of stalls is %s (%s of the stalled time%s%s%s%s%s%s)%s%s.",
                 row == answer->causes.rows ? "" : "known ", cause,
                 gf_amount_share((double)row->us, (double)answer->stall_us), *site ? ", " : "",
                 part, *site ? " of it at " : "", site, *caller ? ", called from " : "", caller,
                 *meaning ? ": " : "", meaning);
}

static void say_stalls(struct gf_answer *answer)
{
    const char *count = gf_amount_of((double)answer->stalls, "call");
    const char *time = gf_amount_time((double)answer->stall_us / 1e6);

    if (!answer->threads.count) {
        gf_lines_add(&answer->verdict, "%s stalled, for %s in total.", count, time);
        return;
    }
    const double span = answer->to - answer->from;
    const double worst = span > 0 ? gf_min((double)answer->threads.rows[0].us / 1e6 / span, 1) : 0;
    gf_lines_add(&answer->verdict,
                 worst < LITTLE_SHARE
                     ? "Stalls cost little: %s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time."
                     : "%s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time.",
                 count, time, gf_amount_time(answer->longest_us / 1e6),
                 gf_tally_label(answer->job, GF_BY_THREAD, answer->threads.rows[0].key),
                 gf_amount_share(worst, 1));
}

/* Returns " of rank 5", or "" if the rank is unknown. */
static const char *rank_text(int64_t rank)
{
    return rank >= 0 ? gf_text(" of rank %ld", rank) : "";
}

static void say_onset(struct gf_answer *answer)
{
    const struct gf_onset *onset = &answer->onset;
    const char *step =
        onset->step > 0 ? gf_text(" (step %ld%s)", onset->step, rank_text(onset->rank)) : "";

    if (onset->at > 0)
        gf_lines_add(&answer->verdict,
                     "Since %s%s stalls take %.0f%s times as much time as before.",
                     clock_of(answer, onset->at), step, onset->factor,
                     onset->factor >= 1000 ? " or more" : "");
}

/*
 * Says from which step on steps took longer. Ranks that wait for each other become slower together;
 * otherwise only the slowest rank may have become slower.
 */
static void say_step_onset(struct gf_answer *answer)
{
    int64_t rank = -1;
    struct gf_step_onset onset = gf_step_onset_find(answer->job, &answer->steps, rank);

    if (!onset.step && answer->slow_rank >= 0) {
        rank = answer->slow_rank;
        onset = gf_step_onset_find(answer->job, &answer->steps, rank);
    }
    if (!onset.step)
        return;
    gf_lines_add(&answer->verdict, "Since step %lu (%s) steps%s take %s instead of %s.", onset.step,
                 clock_of(answer, onset.at), rank_text(rank), gf_amount_time(onset.after_s),
                 gf_amount_time(onset.before_s));
}

static void say_steps(struct gf_answer *answer)
{
    const struct gf_steps *steps = &answer->steps;

    if (!steps->slow)
        return;
    gf_lines_add(&answer->verdict,
                 "Of %zu steps, %zu took more than %d times the median of %s; the longest is step "
                 "%lu%s with %s.",
                 steps->ended, steps->slow, GF_SLOW_STEP, gf_amount_time(steps->median_s),
                 steps->list[0].step,
                 rank_text(answer->job->processes[steps->list[0].process].rank),
                 gf_amount_time(steps->list[0].s));
}

static const char *direction_text(int direction)
{
    return direction == GF_TO_DEVICE ? "to" : "from";
}

/* If the driver copied pageable memory in this direction, says why none of it was staged. */
static void say_not_staged(struct gf_answer *answer, int direction)
{
    const struct gf_copies *copies = &answer->copies;
    const double left = copies->ways[direction][GF_WAY_DRIVER].bytes;

    if (left <= 0)
        return;
    gf_lines_add(&answer->verdict,
                 "No copy %s the GPU was staged: the driver copied all %s of pageable memory%s%s.",
                 direction_text(direction), gf_amount_bytes(left),
                 copies->reason_count[direction] ? ", mostly for this reason: " : "",
                 copies->reason_count[direction]
                     ? gf_help_words(gf_help_reason, copies->reasons[direction][0].name)
                     : "");
}

/* Compares the rate of staged copies with the rate of the driver's copies in the same job. */
static void say_direction(struct gf_answer *answer, int direction)
{
    const struct gf_copy_sum *staged = &answer->copies.ways[direction][GF_WAY_STAGED];
    const struct gf_copy_sum *driver = &answer->copies.ways[direction][GF_WAY_DRIVER];
    const double ours = gf_copy_rate(staged), theirs = gf_copy_rate(driver);

    const char *bytes = gf_amount_bytes(staged->bytes);
    const char *rate = gf_amount_rate(ours);
    const char *rest = gf_amount_bytes(driver->bytes);
    if (staged->bytes <= 0)
        say_not_staged(answer, direction);
    else if (ours > 0 && theirs > 0)
        gf_lines_add(&answer->verdict,
                     "Staging %s: %s %s the GPU were staged at %s, %s copied by the driver at %s.",
                     ours > NOTABLE * theirs   ? "helped"
                     : ours * NOTABLE < theirs ? "did not help"
                                               : "made little difference",
                     bytes, direction_text(direction), rate, rest, gf_amount_rate(theirs));
    else if (ours > 0)
        gf_lines_add(&answer->verdict,
                     "Staging copied %s %s the GPU at %s; the driver copied nothing to "
                     "compare with (`gpufeed compare` runs the job both ways).",
                     bytes, direction_text(direction), rate);
}

static void say_staging(struct gf_answer *answer)
{
    const struct gf_copy_sum(*ways)[GF_WAYS] = answer->copies.ways;
    double staged = 0, driver = 0, pinned = 0;

    for (int i = 0; i < GF_DIRECTIONS; i++) {
        staged += ways[i][GF_WAY_STAGED].bytes;
        driver += ways[i][GF_WAY_DRIVER].bytes;
        pinned += ways[i][GF_WAY_PINNED].bytes;
        say_direction(answer, i);
    }
    if (staged <= 0 && driver <= 0 && pinned > 0)
        gf_lines_add(&answer->verdict, "Staging was not needed: all copies used pinned memory.");
}

static void say_nothing_found(struct gf_answer *answer)
{
    if (answer->unlogged)
        gf_lines_add(&answer->verdict, "No log has a stall, but the logs are incomplete.");
    else if (!answer->processes)
        gf_lines_add(&answer->verdict, answer->counts->logs + answer->counts->empty
                                           ? "The log has no events: no process has logged one yet."
                                           : "There is no log and no report.");
    else if (!answer->counts->logs)
        gf_lines_add(&answer->verdict, "No call stalled. The reports have only sums of stalls; "
                                       "GPUFEED_LOG logs each stall with its call site.");
    else
        gf_lines_add(&answer->verdict,
                     "No call stalled: no allocator or driver call took longer than its limit "
                     "(--stall-us and --stall-wait-us of `gpufeed run`).");
}

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
    GF_OWNED int64_t *rank = gf_cli_alloc(standing->list[group].count, sizeof(*rank));
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++) {
        if (standing->group_of[i] != group + 1)
            continue;
        if (job->processes[i].rank < 0) {
            gf_say(out, "%s", gf_job_process_name(&job->processes[i]));
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
}

/* The group with the fewest processes comes first, because the others may wait for it. */
GF_COMPARATOR(by_count, __typeof__(const struct group *),
              gf_order((*one)->count, (*other)->count) ?: gf_order(*one, *other))

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
        gf_say(&out, " for %lu s: %s%s", whole(group->s),
               strcmp(group->cause, "gpu_wait") == 0 ? "waiting for the GPU"
                                                     : gf_help_words(gf_help_host, group->cause),
               group->at);
    }
    if (standing->count > GROUPS_SAID)
        gf_say(&out, "; %zu more places", standing->count - GROUPS_SAID);
    gf_lines_add(&answer->verdict, "No step ended any more when the reports were written: %s.",
                 text);
}

/*
 * Adds a sentence if a process stood still when its report was written (docs/log.md#standstill): in which
 * step, for how long, and where, grouped by ranks. Returns false if none did.
 */
static bool say_standing(struct gf_answer *answer)
{
    const size_t most = answer->job->process_count;
    struct standing standing = {.list = gf_cli_alloc(most, sizeof(*standing.list)),
                                .group_of = gf_cli_alloc(most, sizeof(*standing.group_of))};
    GF_OWNED const struct group **order = gf_cli_alloc(most, sizeof(void *));

    find_groups(answer->job, &standing);
    for (size_t i = 0; i < standing.count; i++)
        order[i] = &standing.list[i];
    qsort(order, standing.count, sizeof(void *), by_count);
    if (standing.count)
        say_groups(answer, &standing, order);
    gf_text_pool_free(&standing.keys);
    free(standing.list);
    free(standing.group_of);
    return standing.count > 0;
}

void gf_verdict_say(struct gf_answer *answer)
{
    const bool stands = say_standing(answer);

    gf_rank_compare(answer);
    if (answer->differing.count) /* each begins with "rank" */
        gf_lines_add(&answer->verdict, "R%s.", answer->differing.list[0] + 1);
    say_gpu_time(answer);
    if (answer->stalls) {
        say_stalls(answer);
        say_main_cause(answer);
        say_onset(answer);
    } else {
        say_nothing_found(answer);
    }
    if (answer->steps.ended)
        say_steps(answer);
    else
        gf_step_text_say(answer);
    say_step_onset(answer);
    if (!stands && answer->table.count > 1 && !answer->differing.count)
        gf_lines_add(&answer->verdict, "No rank differs much from the median of all ranks.");
    say_staging(answer);
    gf_advice_say(answer);
    gf_notes_say(answer);
}
