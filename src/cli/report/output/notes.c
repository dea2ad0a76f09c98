/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/notes.h"

#include "cli/report/output/amount.h"

#include <stdio.h>

/* A log without a report is all that a killed process leaves. */
static void say_unended(struct gf_answer *answer)
{
    const struct gf_job_process *first = answer->first_unended;
    char time[GF_AMOUNT], name[64];

    if (!first)
        return;
    if (first->rank >= 0)
        snprintf(name, sizeof(name), "rank %lld (process %lld)", (long long)first->rank,
                 (long long)first->pid);
    else
        snprintf(name, sizeof(name), "process %lld", (long long)first->pid);
    gf_amount_clock(first->last, true, time);
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
    char time[GF_AMOUNT], count[GF_AMOUNT];

    say_unended(answer);
    if (answer->running)
        gf_lines_add(&answer->notes,
                     "Not final: %s of %zu; the job still runs, or it was killed. The latest "
                     "figures are from %s.",
                     gf_amount_of((double)answer->running, "report", count), answer->reported,
                     gf_amount_clock(answer->to, true, time));
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
                     gf_amount_of((double)answer->counts->repeated, "file", count));
    if (answer->counts->damaged)
        gf_lines_add(&answer->notes, "Skipped %s; the first one is %s.",
                     gf_amount_of((double)answer->counts->damaged, "damaged line", count),
                     answer->counts->first_damaged);
    if (answer->counts->foreign)
        gf_lines_add(
            &answer->notes,
            "Skipped %s in folders (no log, no report, no output of `gpufeed doctor --json`).",
            gf_amount_of((double)answer->counts->foreign, "file", count));
    if (answer->dropped)
        gf_lines_add(&answer->notes, "The logs are incomplete: the processes dropped %llu lines.",
                     (unsigned long long)answer->dropped);
    if (answer->unlogged)
        gf_lines_add(&answer->notes,
                     "The logs lack %s that the reports count: a log reached its limit of 64 MiB, "
                     "was cut, or is damaged.",
                     gf_amount_of((double)answer->unlogged, "stall", count));
    if (answer->job->lost)
        gf_lines_add(&answer->notes, "Memory was short: %llu events are not counted.",
                     (unsigned long long)answer->job->lost);
}
