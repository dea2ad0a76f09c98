/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/parts.h"
#include "tools/common/text.h"

#include <stdlib.h>

#define LITTLE_SHARE 0.01
/*
 * A cause with less than this share of the GPUs' time needs no remedy. Slightly less than the 5.0 %
 * (as printed) from which a process's summary has one, so that both agree for one process.
 */
#define LEAST_GPU_SHARE 0.049
/* A cause with less than 1 / LEAST_STALL_SHARE of the stalled time needs no remedy. */
#define LEAST_STALL_SHARE 20
#define CAUSES 3
#define ITEMS 16

/* A remedy whose gain is known. */
struct item {
    enum {
        OF_SLOW_RANK, /* for the rank that is slower than the others */
        OF_GPU,       /* for a cause that left a GPU without work */
        OF_THREADS,   /* for lost time of threads; a GPU may have had work in this time */
    } of;
    double gain_s; /* the most time that the remedy saves, summed over ranks or threads */
    char text[768];
};

struct items {
    struct item list[ITEMS];
    unsigned count;
};

/* If the list is full, replaces the last one. text: by gf_text. */
static void add_item(struct items *items, double gain_s, int of, const char *text)
{
    struct item *item = &items->list[items->count < ITEMS - 1 ? items->count++ : ITEMS - 1];

    *item = (struct item){.gain_s = gain_s, .of = of};
    snprintf(item->text, sizeof(item->text), "%s", text);
}

/*
 * Returns a text such as ", mostly of rank 5 at train.py:4 in load". A rank of -1 and a line of ""
 * are unknown; if both are unknown, returns "".
 */
static const char *where_text(const struct gf_answer *answer, int64_t rank, const char *line)
{
    const char *of = rank >= 0 && answer->table.count > 1 ? gf_text(" of rank %ld", rank) : "";
    return *of || *line ? gf_text(", mostly%s%s%s", of, *line ? " at " : "", line) : "";
}

static void add_gpu_causes(const struct gf_answer *answer, struct items *items)
{
    const struct gf_gpu_time *time = &answer->gpu_time;

    for (unsigned i = 0; i < time->causes.count && i < CAUSES; i++) {
        const struct gf_gpu_part *cause = &time->causes.list[i];
        const int64_t rank = cause->rank_s > cause->s / 2 ? cause->rank : -1;
        const bool is_slow = rank >= 0 && rank == answer->slow_rank;
        const char *remedy =
            *cause->remedy ? cause->remedy : gf_help_remedy(gf_help_host, cause->name);
        if (!*remedy || cause->helped_s <= 0 ||
            (cause->helped_s < LEAST_GPU_SHARE * time->s && !is_slow))
            continue;
        add_item(items, cause->helped_s, is_slow ? OF_SLOW_RANK : OF_GPU,
                 gf_text("%s (%s of GPU time%s): %s", gf_help_words(gf_help_host, cause->name),
                         gf_amount_time(cause->s), where_text(answer, rank, cause->line), remedy));
    }
}

/*
 * Returns the value of the second property that has more than half of the row's time; -1 if there
 * is none.
 */
static int64_t most_of(const struct gf_tally_row *row)
{
    return row && row->main_us > row->us / 2 ? row->main : -1;
}

static void add_stall_causes(const struct gf_answer *answer, struct items *items)
{
    struct gf_tally ranks = gf_tally(answer->job, GF_BY_CAUSE, GF_BY_RANK);

    for (size_t i = 0; i < answer->causes.count && i < CAUSES; i++) {
        const struct gf_tally_row *row = &answer->causes.rows[i];
        const char *name = gf_job_text(answer->job, (uint32_t)row->key);
        if (!*gf_help_remedy(gf_help_stall, name) || row->us < answer->stall_us / LEAST_STALL_SHARE)
            continue;
        const int64_t rank = most_of(gf_tally_find(&ranks, row->key)), site = most_of(row);
        const bool is_slow = rank >= 0 && rank == answer->slow_rank;
        const char *line = site >= 0 ? gf_job_text(answer->job, (uint32_t)site) : "";
        add_item(items, (double)row->us / 1e6, is_slow ? OF_SLOW_RANK : OF_THREADS,
                 gf_text("%s (%s of stalls%.400s): %s", name, gf_amount_time((double)row->us / 1e6),
                         where_text(answer, rank, line), gf_help_remedy(gf_help_stall, name)));
    }
    free(ranks.rows);
}

static void add_sums(const struct gf_answer *answer, struct items *items)
{
    const double least = gf_max(LITTLE_SHARE * (answer->to - answer->from), 0.1);
    const double saved = answer->copies.pinning_saves_s, delay = (double)answer->delay_ms / 1000;

    if (saved > least)
        add_item(items, saved, OF_THREADS,
                 gf_text("pinning the source (`pin_memory=True`) would save at most %s",
                         gf_amount_time(saved)));
    if (delay > least)
        add_item(items, delay, OF_THREADS,
                 gf_text("threads waited %s for a CPU: use fewer threads, or more CPUs",
                         gf_amount_time(delay)));
}

GF_COMPARATOR(by_gain, struct item,
              gf_order(one->of, other->of) ?: gf_order(other->gain_s, one->gain_s))

static void say_gains(struct gf_answer *answer)
{
    struct items items = {.count = 0};
    const double span = answer->to - answer->from;
    const double worst =
        answer->threads.count && span > 0 ? (double)answer->threads.rows[0].us / 1e6 / span : 1;

    add_gpu_causes(answer, &items);
    /* If the GPUs' times are known, stalls that cost little get no remedy. */
    if (!answer->gpu_time.devices || worst >= LITTLE_SHARE)
        add_stall_causes(answer, &items);
    add_sums(answer, &items);
    qsort(items.list, items.count, sizeof(items.list[0]), by_gain);
    for (unsigned i = 0; i < items.count; i++)
        gf_lines_add(&answer->helps, "%s", items.list[i].text);
}

static void say_placement(struct gf_answer *answer)
{
    for (size_t i = 0; i < answer->job->process_count; i++) {
        const struct gf_job_process *process = &answer->job->processes[i];
        const char *text =
            process->excluded ? "" : gf_report_text(process->report, "verdict.remedy", 512);
        if (*text)
            gf_lines_add(&answer->helps, "placement: %s", text);
    }
}

/* Returns the sum of a reason's bytes in both directions. */
static double reason_bytes(const struct gf_copies *copies, const char *name)
{
    double bytes = 0;

    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (unsigned k = 0; k < copies->reason_count[i]; k++)
            if (strcmp(copies->reasons[i][k].name, name) == 0)
                bytes += copies->reasons[i][k].sum.bytes;
    return bytes;
}

static void say_reasons(struct gf_answer *answer)
{
    const struct gf_copies *copies = &answer->copies;
    const double all = copies->ways[GF_TO_DEVICE][GF_WAY_DRIVER].bytes +
                       copies->ways[GF_FROM_DEVICE][GF_WAY_DRIVER].bytes;

    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (unsigned k = 0; k < copies->reason_count[i]; k++) {
            const char *name = copies->reasons[i][k].name;
            const double sum = reason_bytes(copies, name);
            if (*gf_help_remedy(gf_help_reason, name) && sum >= all / 4)
                gf_lines_add(&answer->helps, "copies left to the driver (%s, %s): %s",
                             gf_help_words(gf_help_reason, name), gf_amount_bytes(sum),
                             gf_help_remedy(gf_help_reason, name));
        }
}

static void say_doctor(struct gf_answer *answer)
{
    json_t *doctor, *finding;
    size_t i, k;

    json_array_foreach(answer->job->doctors, i, doctor)
        json_array_foreach(json_object_get(doctor, "findings"), k, finding) {
            if (strcmp(gf_report_text(finding, "status", 16), "problem") == 0)
                gf_lines_add(&answer->helps, "doctor: %s: %s",
                             gf_report_text(finding, "summary", 512),
                             gf_report_text(finding, "fix", 1024));
        }
}

void gf_advice_say(struct gf_answer *answer)
{
    say_gains(answer);
    say_placement(answer);
    if (*answer->copies.staging_off && !answer->observing)
        gf_lines_add(&answer->helps, "no copy is staged: %s", answer->copies.staging_off);
    say_reasons(answer);
    say_doctor(answer);
}

/* A log without a report is all that a killed process leaves. */
static void say_unended(struct gf_answer *answer)
{
    const struct gf_job_process *first = answer->first_unended;

    if (!first)
        return;
    const char *name = first->rank >= 0 ? gf_text("rank %ld (process %ld)", first->rank, first->pid)
                                        : gf_job_process_name(first);
    const char *time = gf_amount_clock(first->last, true);
    if (answer->unended == 1)
        gf_lines_add(&answer->notes,
                     "No exit is in the log of %s: it still runs, or it was killed. The log ends "
                     "at %s.",
                     name, time);
    else
        gf_lines_add(&answer->notes,
                     "No exit is in the logs of %zu processes: they still run, or they were "
                     "killed. The log of %s ends first, at %s.",
                     answer->unended, name, time);
}

void gf_notes_say(struct gf_answer *answer)
{
    say_unended(answer);
    if (answer->running)
        gf_lines_add(&answer->notes,
                     "Not final: %s of %zu; the job still runs, or it was killed. The latest "
                     "figures are from %s.",
                     gf_amount_of((double)answer->running, "report"), answer->reported,
                     gf_amount_clock(answer->to, true));
    if (answer->job->since > 0 && answer->reported)
        gf_lines_add(&answer->notes,
                     "--since applies to stalls, steps, and the states of GPUs in "
                     "logs. The reports' GPU time and copies, and run-queue delays, "
                     "are of the whole job.");
    if (answer->observing)
        gf_lines_add(&answer->notes,
                     "GPUFEED=observe: the library only measured, and changed nothing.");
    if (answer->counts->repeated)
        gf_lines_add(&answer->notes, "Skipped %s given more than once, under another name.",
                     gf_amount_of((double)answer->counts->repeated, "file"));
    if (answer->counts->damaged)
        gf_lines_add(&answer->notes, "Skipped %s; the first one is %s.",
                     gf_amount_of((double)answer->counts->damaged, "damaged line"),
                     answer->counts->first_damaged);
    if (answer->counts->foreign)
        gf_lines_add(
            &answer->notes,
            "Skipped %s in folders (no log, no report, no output of `gpufeed doctor --json`).",
            gf_amount_of((double)answer->counts->foreign, "file"));
    if (answer->dropped)
        gf_lines_add(&answer->notes, "The logs are incomplete: the processes dropped %lu lines.",
                     answer->dropped);
    if (answer->unlogged)
        gf_lines_add(&answer->notes,
                     "The logs lack %s that the reports count: a log reached its limit of 64 MiB, "
                     "was cut, or is damaged.",
                     gf_amount_of((double)answer->unlogged, "stall"));
    if (answer->job->lost)
        gf_lines_add(&answer->notes, "Too many events: %lu are not counted.", answer->job->lost);
}
