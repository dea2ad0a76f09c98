/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/step_text.h"

#include "base/fmt.h"
#include "cli/report/output/amount.h"
#include "cli/report/output/helps.h"

#include <string.h>

#define P99_STEPS 100   /* with fewer steps, the 99th percentile is the longest step */
#define LEAST_WAIT 0.02 /* a smaller share of a step that waits for data is omitted */

static bool is(const char *text, const char *wanted)
{
    return strcmp(text, wanted) == 0;
}

/* How the steps were found, which the reader needs to judge the numbers. */
static void say_source(struct gf_textbuf *words, const struct gf_reported_steps *steps)
{
    char bytes[GF_AMOUNT];

    if (is(steps->source, "copies"))
        gf_say(words, " (a copy of %s to the GPU begins each)",
               gf_amount_bytes(steps->copy_bytes, bytes));
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
        gf_say(words, " of rank %lld", (long long)process->rank);
    else
        gf_say(words, " of process %lld", (long long)process->pid);
    gf_say(words, ", the slowest of %zu,", answer->reported_steps.count);
}

static void say_difference(struct gf_textbuf *words, const struct gf_reported_steps *steps)
{
    const char *difference = steps->difference;
    char time[GF_AMOUNT];

    gf_amount_time(steps->detail_s, time);
    if (is(difference, "stall"))
        gf_say(words, ", in which calls stalled for %s: %s", time, steps->detail);
    else if (is(difference, "idle"))
        gf_say(words, ", in which the GPU had nothing to do for %s: %s", time,
               gf_host_words(steps->detail));
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

void gf_step_text_say(struct gf_answer *answer)
{
    const struct gf_reported_steps *steps = answer->reported_steps.list;
    char text[640], time[GF_AMOUNT], share[GF_AMOUNT];
    struct gf_textbuf words = {.buf = text, .size = sizeof(text)};

    if (!answer->reported_steps.count)
        return;
    gf_say(&words, "The median of %llu steps", (unsigned long long)gf_min(steps->steps, 1e15));
    say_source(&words, steps);
    say_process(&words, answer, steps);
    gf_say(&words, " is %s", gf_amount_time(steps->p50_s, time));
    if (steps->steps >= P99_STEPS)
        gf_say(&words, ", the 99th percentile %s", gf_amount_time(steps->p99_s, time));
    gf_say(&words, "; the longest took %s", gf_amount_time(steps->max_s, time));
    say_difference(&words, steps);
    gf_say(&words, ".");
    if (steps->data_wait_s > LEAST_WAIT * steps->p50_s)
        gf_say(&words, " The mean step waits %s for data (%s of the median).",
               gf_amount_time(steps->data_wait_s, time),
               gf_amount_share(steps->data_wait_s, steps->p50_s, share));
    gf_lines_add(&answer->verdict, "%s", text);
}
