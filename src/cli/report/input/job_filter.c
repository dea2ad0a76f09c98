/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/job_filter.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANK_MAX 10000000

static bool parse_rank(const char **text, int64_t *ret)
{
    char *rest;

    if (**text < '0' || **text > '9')
        return false;
    *ret = strtoll(*text, &rest, 10);
    *text = rest;
    return *ret <= RANK_MAX;
}

bool gf_job_filter_ranks(struct gf_job_filter *filter, const char *text)
{
    for (;; text++) {
        int64_t first, last;
        if (filter->rank_count == GF_RANK_RANGES || !parse_rank(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!parse_rank(&text, &last) || last < first)
                return false;
        }
        filter->ranks[filter->rank_count].first = first;
        filter->ranks[filter->rank_count++].last = last;
        if (*text != ',')
            return !*text;
    }
}

static bool parse_length(const char *text, double *ret)
{
    static const char units[] = "smhd";
    static const double seconds[] = {1, 60, 3600, 86400};
    char *rest;

    if (*text < '0' || *text > '9')
        return false;
    const double number = strtod(text, &rest);
    const char *unit = *rest ? strchr(units, *rest) : NULL;
    if (!unit || rest[1] || !(number > 0 && number < 1e6))
        return false;
    *ret = number * seconds[unit - units];
    return true;
}

static bool parse_moment(const char *text, double *ret)
{
    static const char *const formats[] = {
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
        "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};
    const time_t now = time(NULL);

    for (size_t i = 0; i < GF_ARRAY_LEN(formats); i++) {
        struct tm at;
        if (!localtime_r(&now, &at))
            return false;
        at.tm_sec = at.tm_min = at.tm_hour = 0;
        const char *rest = strptime(text, formats[i], &at);
        if (!rest || *rest)
            continue;
        at.tm_isdst = -1;
        const time_t moment = mktime(&at);
        *ret = (double)moment;
        return moment > 0;
    }
    return false;
}

bool gf_job_filter_since(struct gf_job_filter *filter, const char *text)
{
    return parse_length(text, &filter->last_s) || parse_moment(text, &filter->since);
}

bool gf_job_filter_takes_rank(const struct gf_job_filter *filter, int64_t rank)
{
    for (unsigned i = 0; i < filter->rank_count; i++)
        if (rank >= filter->ranks[i].first && rank <= filter->ranks[i].last)
            return true;
    return !filter->rank_count;
}

static double end_of(const struct gf_job *job)
{
    double end = 0;

    for (size_t i = 0; i < job->process_count; i++)
        if (!job->processes[i].excluded)
            end = gf_max(end, job->processes[i].last);
    return end;
}

double gf_job_filter_moment(const struct gf_job *job, const struct gf_job_filter *filter)
{
    return filter->last_s > 0 ? end_of(job) - filter->last_s : filter->since;
}

void gf_job_filter_apply(struct gf_job *job, const struct gf_job_filter *filter)
{
    size_t stalls = 0, notes = 0, marks = 0;

    for (size_t i = 0; i < job->process_count; i++)
        job->processes[i].excluded = !gf_job_filter_takes_rank(filter, job->processes[i].rank);
    const double since = gf_job_filter_moment(job, filter);
    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall stall = job->stalls[i];
        if (!job->processes[stall.process].excluded && stall.at + stall.us / 1e6 >= since)
            job->stalls[stalls++] = stall;
    }
    for (size_t i = 0; i < job->note_count; i++) {
        const struct gf_note note = job->notes[i];
        if (!job->processes[note.process].excluded && note.at >= since)
            job->notes[notes++] = note;
    }
    for (size_t i = 0; i < job->mark_count; i++) {
        const struct gf_step_mark mark = job->marks[i];
        if (!job->processes[mark.process].excluded && mark.at >= since)
            job->marks[marks++] = mark;
    }
    job->stall_count = stalls;
    job->mark_count = marks;
    job->note_count = notes;
    for (size_t i = 0; i < job->process_count; i++)
        job->processes[i].first = gf_max(job->processes[i].first, since);
}
