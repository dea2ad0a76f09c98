/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/event_list.h"

#include "cli/common/cli.h"
#include "cli/report/input/log_merge.h"
#include "cli/report/input/read_job.h"
#include "cli/report/output/event_text.h"

#include <stdlib.h>

/* How many events and damaged lines of a log were read so far. */
struct known {
    unsigned events, bad;
    bool refused; /* an error about the file was printed */
};

/*
 * Called for a file in which only `bad` damaged lines and no event were read so far. Returns true
 * if the file is not a log; then also prints an error if an operand names the file.
 */
static bool is_foreign(const struct gf_merged_line *line, unsigned bad)
{
    const bool is_report = bad == 1 && gf_span_is(line->text, "{");
    const char *name = gf_source_name(line->source);

    if (!is_report && bad <= GF_FOREIGN_LINES)
        return false;
    if (line->source->is_named)
        gf_cli_error("report",
                     is_report ? "%s is a report (GPUFEED_REPORT), which has no events"
                               : "%s is not a log (GPUFEED_LOG)",
                     name);
    return true;
}

static bool takes(struct gf_job *job, const struct gf_merged_line *line,
                  const struct gf_job_filter *filter)
{
    if (filter->rank_count) {
        const uint32_t process = gf_job_process_of(job, line->log, &line->event);
        if (process == UINT32_MAX ||
            !gf_job_filter_takes_rank(filter, job->processes[process].rank))
            return false;
    }
    return gf_event_time(&line->event) >= filter->since;
}

/*
 * Prints the line's event if it passes the filter. Returns false if the file is not a log, so that
 * the caller skips the rest of the file; then also sets *ret_failed if an operand names the file.
 */
static bool print_line(struct gf_job *job, const struct gf_merged_line *line, struct known *known,
                       const struct gf_job_filter *filter, bool *ret_failed)
{
    if (line->is_event && !takes(job, line, filter)) {
        known->events++;
        return true;
    }
    if (line->is_event && gf_event_print(line->text)) {
        known->events++;
        return true;
    }
    known->bad++;
    known->refused = !known->events && is_foreign(line, known->bad);
    if (known->refused) {
        *ret_failed = line->source->is_named || *ret_failed;
        return false;
    }
    gf_cli_error("report", "%s:%llu is not an event", gf_source_name(line->source),
                 (unsigned long long)line->number);
    return true;
}

/* Called at the end of all logs. Whether an operand names a file that has lines, but no event. */
static bool is_short_text(const struct gf_source *source, const struct known *known)
{
    if (!source->is_named || known->refused || known->events || !known->bad)
        return false;
    gf_cli_error("report", "%s has no event of a log (GPUFEED_LOG)", gf_source_name(source));
    return true;
}

bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter)
{
    struct known *known = calloc(sources->count + 1, sizeof(*known));
    struct gf_job job = {0};
    struct gf_log_merge merge;
    struct gf_merged_line *line;
    bool failed = !gf_log_merge_begin(&merge, sources) || !known;

    while (known && (line = gf_log_merge_next(&merge)))
        if (!print_line(&job, line, &known[line->source - sources->list], filter, &failed))
            gf_log_merge_drop(&merge);
    for (size_t i = 0; known && i < sources->count; i++)
        failed = is_short_text(&sources->list[i], &known[i]) || failed;
    failed = !gf_log_merge_end(&merge) || failed;
    gf_job_free(&job);
    free(known);
    return !failed;
}
