/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "tools/answer/helps.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"

#include <stdio.h>
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

/* Names the process if several reports have steps. */
static void say_process(struct gf_textbuf *words, const struct gf_answer *answer,
                        const struct gf_reported_steps *steps)
{
    const struct gf_job_process *process = &answer->job->processes[steps->process];

    if (answer->reported_steps.count < 2)
        return;
    if (process->rank >= 0)
        gf_say(words, " of rank %ld", process->rank);
    else
        gf_say(words, " of process %ld", process->pid);
    gf_say(words, ", the slowest of %zu,", answer->reported_steps.count);
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
    say_process(&words, answer, steps);
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

const char *gf_verdict_scope(const struct gf_answer *answer, char *buf, size_t size)
{
    struct gf_textbuf words = {buf, size, 0};

    if (answer->table.count)
        gf_say(&words, "%s", gf_amount_of((double)answer->table.count, "rank"));
    if (answer->hosts)
        gf_say(&words, words.at ? " on %s" : "%s", gf_amount_of((double)answer->hosts, "host"));
    gf_say(&words, "%s%zu process%s", words.at ? ", " : "", answer->processes,
           answer->processes == 1 ? "" : "es");
    if (answer->to > 0)
        gf_say(&words, ", %s from %s to %s", gf_amount_time(answer->to - answer->from),
               gf_amount_clock(answer->from, true),
               gf_amount_clock(answer->to, answer->to - answer->from > 43200));
    return buf;
}

static void say_gpu_causes(const struct gf_gpu_time *time, char *buf, size_t size)
{
    struct gf_textbuf words = {buf, size, 0};

    *buf = '\0';
    for (unsigned i = 0; i < time->causes.count && i < SAID_CAUSES; i++) {
        const struct gf_gpu_part *cause = &time->causes.list[i];
        if (cause->s < LITTLE_SHARE * time->s)
            break;
        gf_say(&words, "%s%s %s", i ? ", " : ": ", gf_help_words(gf_help_host, cause->name),
               gf_amount_share(cause->s, time->s));
        if (!i && *cause->line)
            gf_say(&words, " (at %s)", cause->line);
    }
}

/* Writes "; since 08:51:09, 80 % of the time", or "" without --since or activity in a log. */
static void say_recent_gpu(const struct gf_answer *answer, char *buf, size_t size)
{
    const struct gf_logged_gpu *recent = &answer->logged_gpu;

    *buf = '\0';
    if (answer->job->since > 0 && recent->s > 0)
        snprintf(buf, size, "; since %s, %s of the time",
                 gf_amount_clock(answer->job->since, answer->to - answer->from > 43200),
                 gf_amount_share(recent->empty_s, recent->s));
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
    const double empty = gf_gpu_time_state(time, "empty");
    const char *gpus = time->devices > 1 ? "GPUs" : "GPU";
    const char *when = answer->job->since > 0 ? "In the whole job, the" : "The";
    char causes[512], recent[96];

    if (!time->devices || time->s <= 0) {
        say_logged_gpu(answer);
        return;
    }
    const char *share = gf_amount_share(empty, 1);
    say_gpu_causes(time, causes, sizeof(causes));
    say_recent_gpu(answer, recent, sizeof(recent));
    if (empty < BUSY_SHARE)
        gf_lines_add(&answer->verdict, "%s %s nearly always had work, except for %s of the time%s.",
                     when, gpus, share, recent);
    else
        gf_lines_add(&answer->verdict, "%s %s had nothing to do %s of the time%s%s.", when, gpus,
                     share, causes, recent);
}

/*
 * Returns the caller that has the most stalled time at a call site; 0 if unknown. Many call sites
 * are in helper functions, whose callers tell more.
 */
static uint32_t main_caller(const struct gf_job *job, int64_t site)
{
    uint64_t *us = gf_cli_alloc(job->texts.count, sizeof(*us));
    uint32_t most = 0;

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_job_stack *stack = &job->stacks[job->stalls[i].stack];
        if (stack->site != site || !stack->caller)
            continue;
        us[stack->caller] += job->stalls[i].us;
        most = us[stack->caller] > us[most] ? stack->caller : most;
    }
    free(us);
    return most;
}

/*
 * Writes a text such as ", 81 % of it at train.py:4 in load, called from train.py:9 in <module>".
 */
static void say_site(const struct gf_answer *answer, const struct gf_tally_row *row, char *buf,
                     size_t size)
{
    char site[1024];
    const uint32_t caller = main_caller(answer->job, row->main);
    const bool is_all = row->main_us == row->us;

    snprintf(buf, size, ", %s of it at %s%s%s",
             is_all ? "all" : gf_amount_share((double)row->main_us, (double)row->us),
             gf_tally_label(answer->job, GF_BY_SITE, row->main, site, sizeof(site)),
             caller ? ", called from " : "", caller ? gf_job_text(answer->job, caller) : "");
}

/* Returns the largest cause that is known; the first row if none is known. */
static const struct gf_tally_row *main_cause(const struct gf_answer *answer)
{
    char cause[64];

    for (size_t i = 0; i < answer->causes.count; i++) {
        const struct gf_tally_row *row = &answer->causes.rows[i];
        gf_tally_label(answer->job, GF_BY_CAUSE, row->key, cause, sizeof(cause));
        if (strcmp(cause, "unknown") != 0)
            return row;
    }
    return answer->causes.rows;
}

static void say_main_cause(struct gf_answer *answer)
{
    char cause[64], where[2400] = "";

    if (!answer->causes.count)
        return;
    const struct gf_tally_row *row = main_cause(answer);
    gf_tally_label(answer->job, GF_BY_CAUSE, row->key, cause, sizeof(cause));
    const char *meaning = gf_help_words(gf_help_stall, cause);
    if (row->main && *gf_job_text(answer->job, (uint32_t)row->main))
        say_site(answer, row, where, sizeof(where));
    gf_lines_add(&answer->verdict,
                 "The main %scause of stalls is %s (%s of the stalled time%s)%s%s.",
                 row == answer->causes.rows ? "" : "known ", cause,
                 gf_amount_share((double)row->us, (double)answer->stall_us), where,
                 *meaning ? ": " : "", meaning);
}

static void say_stalls(struct gf_answer *answer)
{
    char name[256];

    const char *count = gf_amount_of((double)answer->stalls, "call");
    const char *time = gf_amount_time((double)answer->stall_us / 1e6);
    if (!answer->threads.count) {
        gf_lines_add(&answer->verdict, "%s stalled, for %s in total.", count, time);
        return;
    }
    const double span = answer->to - answer->from;
    const double worst = span > 0 ? gf_min((double)answer->threads.rows[0].us / 1e6 / span, 1) : 0;
    gf_tally_label(answer->job, GF_BY_THREAD, answer->threads.rows[0].key, name, sizeof(name));
    const char *share = gf_amount_share(worst, 1);
    gf_lines_add(&answer->verdict,
                 worst < LITTLE_SHARE
                     ? "Stalls cost little: %s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time."
                     : "%s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time.",
                 count, time, gf_amount_time(answer->longest_us / 1e6), name, share);
}

/* Writes " (step 41 of rank 5)", or "" if the step is unknown. */
static const char *step_text(int64_t step, int64_t rank, char *buf, size_t size)
{
    *buf = '\0';
    if (step > 0 && rank >= 0)
        snprintf(buf, size, " (step %ld of rank %ld)", step, rank);
    else if (step > 0)
        snprintf(buf, size, " (step %ld)", step);
    return buf;
}

static void say_onset(struct gf_answer *answer)
{
    const struct gf_onset *onset = &answer->onset;
    char step[64];

    if (onset->at > 0)
        gf_lines_add(&answer->verdict,
                     "Since %s%s stalls take %.0f%s times as much time as before.",
                     gf_amount_clock(onset->at, answer->to - answer->from > 43200),
                     step_text(onset->step, onset->rank, step, sizeof(step)), onset->factor,
                     onset->factor >= 1000 ? " or more" : "");
}

/*
 * Says from which step on steps took longer. Ranks that wait for each other become slower together;
 * otherwise only the slowest rank may have become slower.
 */
static void say_step_onset(struct gf_answer *answer)
{
    char rank[32] = "";
    struct gf_step_onset onset = gf_step_onset_find(answer->job, &answer->steps, -1);

    if (!onset.step && answer->slow_rank >= 0) {
        onset = gf_step_onset_find(answer->job, &answer->steps, answer->slow_rank);
        snprintf(rank, sizeof(rank), " of rank %ld", answer->slow_rank);
    }
    if (!onset.step)
        return;
    gf_lines_add(&answer->verdict, "Since step %lu (%s) steps%s take %s instead of %s.", onset.step,
                 gf_amount_clock(onset.at, answer->to - answer->from > 43200), rank,
                 gf_amount_time(onset.after_s), gf_amount_time(onset.before_s));
}

static void say_steps(struct gf_answer *answer)
{
    const struct gf_steps *steps = &answer->steps;
    char rank[48] = "";

    if (!steps->slow)
        return;
    const int64_t number = answer->job->processes[steps->list[0].process].rank;
    if (number >= 0)
        snprintf(rank, sizeof(rank), " of rank %ld", number);
    gf_lines_add(&answer->verdict,
                 "Of %zu steps, %zu took more than %d times the median of %s; the longest is step "
                 "%lu%s with %s.",
                 steps->ended, steps->slow, GF_SLOW_STEP, gf_amount_time(steps->median_s),
                 steps->list[0].step, rank, gf_amount_time(steps->list[0].s));
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

void gf_verdict_say(struct gf_answer *answer)
{
    const bool stands = gf_standing_say(answer);

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
