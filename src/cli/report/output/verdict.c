/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/verdict.h"

#include "cli/report/input/report_file.h"
#include "cli/report/output/amount.h"
#include "cli/report/output/helps.h"

#include <stdio.h>
#include <string.h>

#define LITTLE_SHARE 0.01
#define HELPED_CAUSES 3
#define NOTABLE 1.1 /* rates that differ by a smaller factor count as equal */
#define SAID_CAUSES 3
#define BUSY_SHARE 0.05 /* a GPU that has nothing to do for a smaller share counts as busy */

const char *gf_verdict_scope(const struct gf_answer *answer, char *buf, size_t size)
{
    char ranks[GF_AMOUNT], hosts[GF_AMOUNT], time[GF_AMOUNT], from[GF_AMOUNT], to[GF_AMOUNT];
    size_t at = 0;

    if (answer->ranks_known)
        at += (size_t)snprintf(buf, size, "%s",
                               gf_amount_of((double)answer->ranks_known, "rank", ranks));
    if (answer->hosts && at < size)
        at += (size_t)snprintf(buf + at, size - at, at ? " on %s" : "%s",
                               gf_amount_of((double)answer->hosts, "host", hosts));
    if (at < size)
        at += (size_t)snprintf(buf + at, size - at, "%s%zu process%s", at ? ", " : "",
                               answer->processes, answer->processes == 1 ? "" : "es");
    if (answer->to > 0 && at < size)
        snprintf(buf + at, size - at, ", %s from %s to %s",
                 gf_amount_time(answer->to - answer->from, time),
                 gf_amount_clock(answer->from, true, from),
                 gf_amount_clock(answer->to, answer->to - answer->from > 43200, to));
    return buf;
}

static void say_gpu_causes(const struct gf_gpu_time *time, char *buf, size_t size)
{
    size_t at = 0;

    *buf = '\0';
    for (unsigned i = 0; i < time->causes.count && i < SAID_CAUSES; i++) {
        char share[GF_AMOUNT];
        const struct gf_gpu_part *cause = &time->causes.list[i];
        if (cause->s < LITTLE_SHARE * time->s || at >= size)
            break;
        at +=
            (size_t)snprintf(buf + at, size - at, "%s%s %s", i ? ", " : ": ",
                             gf_host_words(cause->name), gf_amount_share(cause->s, time->s, share));
    }
}

/* Called first, because the other sentences explain parts of the GPU's time. */
static void say_gpu_time(struct gf_answer *answer)
{
    const struct gf_gpu_time *time = &answer->gpu_time;
    const double empty = gf_gpu_time_state(time, "empty");
    const char *gpus = time->devices > 1 ? "GPUs" : "GPU";
    char share[GF_AMOUNT], causes[512];

    if (!time->devices || time->s <= 0)
        return;
    gf_amount_share(empty, 1, share);
    say_gpu_causes(time, causes, sizeof(causes));
    if (empty < BUSY_SHARE)
        gf_lines_add(&answer->verdict,
                     "The %s nearly always had work: nothing to do %s of the time.", gpus, share);
    else
        gf_lines_add(&answer->verdict, "The %s had nothing to do %s of the time%s.", gpus, share,
                     causes);
}

static void help_gpu_time(struct gf_answer *answer)
{
    const struct gf_gpu_time *time = &answer->gpu_time;

    for (unsigned i = 0; i < time->causes.count && i < SAID_CAUSES; i++) {
        const struct gf_gpu_part *cause = &time->causes.list[i];
        if (cause->s >= BUSY_SHARE * time->s && *gf_host_help(cause->name))
            gf_lines_add(&answer->helps, "%s: %s", gf_host_words(cause->name),
                         gf_host_help(cause->name));
    }
}

/* The share of the job's time that the most affected thread was stalled. */
static double worst_share(const struct gf_answer *answer)
{
    const double span = answer->to - answer->from;
    return span > 0 ? gf_min((double)answer->threads.rows[0].us / 1e6 / span, 1) : 0;
}

static void say_main_cause(struct gf_answer *answer)
{
    char cause[64], site[1024], share[GF_AMOUNT];
    const struct gf_tally_row *row = answer->causes.rows;

    if (!answer->causes.count)
        return;
    gf_tally_label(answer->job, GF_BY_CAUSE, row->key, cause, sizeof(cause));
    gf_amount_share((double)row->us, (double)answer->stall_us, share);
    if (row->main && *gf_job_text(answer->job, (uint32_t)row->main))
        gf_lines_add(&answer->verdict,
                     "The main cause is %s (%s of the stalled time), most of it at %s.", cause,
                     share, gf_tally_label(answer->job, GF_BY_SITE, row->main, site, sizeof(site)));
    else
        gf_lines_add(&answer->verdict, "The main cause is %s (%s of the stalled time).", cause,
                     share);
}

static void say_stalls(struct gf_answer *answer)
{
    char time[GF_AMOUNT], share[GF_AMOUNT], count[GF_AMOUNT], name[256], longest[GF_AMOUNT];

    gf_amount_of((double)answer->stalls, "call", count);
    gf_amount_time((double)answer->stall_us / 1e6, time);
    if (!answer->threads.count) {
        gf_lines_add(&answer->verdict, "%s stalled, for %s in total.", count, time);
        return;
    }
    const double worst = worst_share(answer);
    gf_tally_label(answer->job, GF_BY_THREAD, answer->threads.rows[0].key, name, sizeof(name));
    gf_amount_share(worst, 1, share);
    gf_lines_add(&answer->verdict,
                 worst < LITTLE_SHARE
                     ? "Stalls cost little: %s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time."
                     : "%s stalled for %s in total, the longest for %s; "
                       "the most affected thread (%s) lost %s of the job's time.",
                 count, time, gf_amount_time(answer->longest_us / 1e6, longest), name, share);
}

static void say_onset(struct gf_answer *answer)
{
    char clock[GF_AMOUNT];

    if (answer->onset > 0)
        gf_lines_add(&answer->verdict, "Since %s stalls take %.0f%s times as much time as before.",
                     gf_amount_clock(answer->onset, answer->to - answer->from > 43200, clock),
                     answer->onset_factor, answer->onset_factor >= 1000 ? " or more" : "");
}

static void say_steps(struct gf_answer *answer)
{
    const struct gf_steps *steps = &answer->steps;
    char median[GF_AMOUNT], longest[GF_AMOUNT], rank[48] = "";

    if (!steps->slow)
        return;
    const int64_t number = answer->job->processes[steps->list[0].process].rank;
    if (number >= 0)
        snprintf(rank, sizeof(rank), " of rank %lld", (long long)number);
    gf_lines_add(&answer->verdict,
                 "Of %zu steps, %zu took more than %d times the median of %s; the longest is step "
                 "%llu%s with %s.",
                 steps->ended, steps->slow, GF_SLOW_STEP, gf_amount_time(steps->median_s, median),
                 (unsigned long long)steps->list[0].step, rank,
                 gf_amount_time(steps->list[0].s, longest));
}

/* Compares the rate of staged copies with that of the driver's copies in the same job. */
static void say_staging(struct gf_answer *answer)
{
    for (int i = 0; i < GF_DIRECTIONS; i++) {
        const struct gf_copy_sum *staged = &answer->copies.ways[i][GF_WAY_STAGED];
        const struct gf_copy_sum *driver = &answer->copies.ways[i][GF_WAY_DRIVER];
        const double ours = gf_copy_rate(staged), theirs = gf_copy_rate(driver);
        char bytes[GF_AMOUNT], rest[GF_AMOUNT];
        if (staged->bytes <= 0)
            continue;
        gf_amount_bytes(staged->bytes, bytes);
        gf_amount_bytes(driver->bytes, rest);
        if (ours > 0 && theirs > 0)
            gf_lines_add(&answer->verdict,
                         "Staging %s: %s %s the GPU were staged at %.1f GB/s, %s copied by the "
                         "driver at %.1f GB/s.",
                         ours > NOTABLE * theirs   ? "helped"
                         : ours * NOTABLE < theirs ? "did not help"
                                                   : "made little difference",
                         bytes, i == GF_TO_DEVICE ? "to" : "from", ours, rest, theirs);
        else if (ours > 0)
            gf_lines_add(&answer->verdict, "Staging copied %s %s the GPU at %.1f GB/s.", bytes,
                         i == GF_TO_DEVICE ? "to" : "from", ours);
    }
}

static void say_nothing_found(struct gf_answer *answer)
{
    if (!answer->processes)
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

static void say_notes(struct gf_answer *answer)
{
    char time[GF_AMOUNT], count[GF_AMOUNT];

    if (answer->running)
        gf_lines_add(&answer->notes,
                     "Not final: %s of %zu; the job still runs, or it was killed. The latest "
                     "figures are from %s.",
                     gf_amount_of((double)answer->running, "report", count), answer->reported,
                     gf_amount_clock(answer->to, true, time));
    if (answer->observing)
        gf_lines_add(&answer->notes,
                     "GPUFEED=observe: the library only measured, and changed nothing.");
    if (answer->counts->damaged)
        gf_lines_add(&answer->notes, "Skipped %s; the first one is %s.",
                     gf_amount_of((double)answer->counts->damaged, "damaged line", count),
                     answer->counts->first_damaged);
    if (answer->counts->foreign)
        gf_lines_add(&answer->notes,
                     "Skipped %s in folders: neither a log, a report nor the doctor's findings.",
                     gf_amount_of((double)answer->counts->foreign, "file", count));
    if (answer->dropped)
        gf_lines_add(&answer->notes, "The logs are incomplete: the processes dropped %llu lines.",
                     (unsigned long long)answer->dropped);
    if (answer->job->lost)
        gf_lines_add(&answer->notes, "Memory was short: %llu events are not counted.",
                     (unsigned long long)answer->job->lost);
}

/* The sum of a reason's bytes in both directions. */
static double reason_bytes(const struct gf_copies *copies, const char *name)
{
    double bytes = 0;

    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (unsigned k = 0; k < copies->reason_count[i]; k++)
            if (strcmp(copies->reasons[i][k].name, name) == 0)
                bytes += copies->reasons[i][k].sum.bytes;
    return bytes;
}

static void help_reasons(struct gf_answer *answer)
{
    const struct gf_copies *copies = &answer->copies;
    const double all = copies->ways[GF_TO_DEVICE][GF_WAY_DRIVER].bytes +
                       copies->ways[GF_FROM_DEVICE][GF_WAY_DRIVER].bytes;

    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (unsigned k = 0; k < copies->reason_count[i]; k++) {
            const char *name = copies->reasons[i][k].name;
            const double sum = reason_bytes(copies, name);
            char bytes[GF_AMOUNT];
            if (*gf_reason_help(name) && sum >= all / 4)
                gf_lines_add(&answer->helps, "copies left to the driver (%s, %s): %s",
                             gf_reason_words(name), gf_amount_bytes(sum, bytes),
                             gf_reason_help(name));
        }
}

static void say_helps(struct gf_answer *answer)
{
    char text[512], time[GF_AMOUNT];
    const double span = answer->to - answer->from;

    help_gpu_time(answer);
    /* With GPU times, stalls that cost little need no remedy. */
    const bool matter =
        !answer->gpu_time.devices || !answer->threads.count || worst_share(answer) >= LITTLE_SHARE;
    for (size_t i = 0; matter && i < answer->causes.count && i < HELPED_CAUSES; i++) {
        const struct gf_tally_row *row = &answer->causes.rows[i];
        const char *help = gf_cause_help(gf_job_text(answer->job, (uint32_t)row->key));
        if (*help && row->us >= answer->stall_us / 20)
            gf_lines_add(&answer->helps, "%s: %s", gf_job_text(answer->job, (uint32_t)row->key),
                         help);
    }
    for (size_t i = 0; i < answer->job->process_count; i++) {
        const struct gf_job_process *process = &answer->job->processes[i];
        if (process->report && !process->excluded &&
            *gf_report_text(process->report, "verdict.remedy", text, sizeof(text)))
            gf_lines_add(&answer->helps, "placement: %s", text);
    }
    if (*answer->copies.staging_off && !answer->observing)
        gf_lines_add(&answer->helps, "no copy is staged: %s", answer->copies.staging_off);
    help_reasons(answer);
    if (answer->copies.pinning_saves_s > gf_max(LITTLE_SHARE * span, 0.1))
        gf_lines_add(&answer->helps, "pinning the source (`pin_memory=True`) would save at most %s",
                     gf_amount_time(answer->copies.pinning_saves_s, time));
    if ((double)answer->delay_ms / 1000 > gf_max(LITTLE_SHARE * span, 0.1))
        gf_lines_add(&answer->helps, "threads waited %s for a CPU: use fewer threads, or more CPUs",
                     gf_amount_time((double)answer->delay_ms / 1000, time));
}

static void help_doctor(struct gf_answer *answer)
{
    json_t *doctor, *finding;
    size_t i, k;

    json_array_foreach(answer->job->doctors, i, doctor)
        json_array_foreach(json_object_get(doctor, "findings"), k, finding)
    {
        char status[16], summary[512], fix[1024];
        if (strcmp(gf_report_text(finding, "status", status, sizeof(status)), "problem") == 0)
            gf_lines_add(&answer->helps, "doctor: %s: %s",
                         gf_report_text(finding, "summary", summary, sizeof(summary)),
                         gf_report_text(finding, "fix", fix, sizeof(fix)));
    }
}

/* Capitalizes the sentence: it begins with "rank", because it is also an item of a list. */
static void say_rank(struct gf_answer *answer)
{
    if (answer->differing.count)
        gf_lines_add(&answer->verdict, "R%s.", answer->differing.list[0] + 1);
}

void gf_verdict_say(struct gf_answer *answer)
{
    gf_rank_table_compare(&answer->table, answer->job, &answer->differing);
    say_gpu_time(answer);
    if (answer->stalls) {
        say_stalls(answer);
        say_main_cause(answer);
        say_onset(answer);
    } else {
        say_nothing_found(answer);
    }
    say_rank(answer);
    say_steps(answer);
    say_staging(answer);
    say_helps(answer);
    help_doctor(answer);
    say_notes(answer);
}
