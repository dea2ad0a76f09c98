/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/exit_summary.h"

#include "base/log.h"
#include "engine/process/intervals.h"
#include "engine/process/output.h"
#include "engine/process/process_state.h"
#include "engine/process/transfers.h"
#include "engine/report/summary.h"
#include "engine/report/summary_gpu_time.h"
#include "engine/report/summary_stalls.h"
#include "engine/report/summary_steps.h"
#include "engine/report/summary_transfers.h"

#include <string.h>

/* Prints each line of the text as a line of its own. */
static void print_lines(char *text)
{
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (*line)
            gf_info("%s", line);
}

/*
 * Prints the summary, with the most important lines first: where the GPU's time went, then copies,
 * stalls and the placement.
 */
static void print_summary(const struct gf_report *report)
{
    char text[2048];

    gf_summary_gpu_time(&report->gpu_time, text, sizeof(text));
    print_lines(text);
    gf_summary_steps(report, text, sizeof(text));
    print_lines(text);
    gf_summary_transfers(&report->transfers, report->each_hook, text, sizeof(text));
    gf_summary_copy_waits(&report->copy_waits, text + strlen(text), sizeof(text) - strlen(text));
    print_lines(text);
    gf_summary_stalls(report, text, sizeof(text));
    print_lines(text);
    gf_summary_exit(report, text, sizeof(text));
    print_lines(text);
}

void gf_exit_summary_skip(void)
{
    const struct gf_process *p = &gf_process;

    if (gf_load_relaxed(&p->choice.contexts) && *p->preload->options->report)
        gf_warn("GPUFEED_REPORT: %s: the library's thread did not respond; the last report is lost",
                p->preload->options->report);
    gf_store_relaxed(&gf_process.dead, true);
    gf_sampler_stop();
}

void gf_exit_summary_run(void)
{
    struct gf_process *p = &gf_process;

    gf_output_sample(true);
    gf_store_relaxed(&p->dead, true);
    gf_sampler_stop();
    gf_intervals_end();
    gf_output_report(true);
    if (gf_log_wants(GF_LOG_INFO) && p->choice.contexts)
        print_summary(&p->report);
    gf_transfers_print();
}
