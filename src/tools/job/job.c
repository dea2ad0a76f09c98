/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job.h"

#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>
#include <time.h>

/* A list has room for the next power of two, and so needs no member for its size. */
void *gf_job_grown(void *list, size_t element, size_t count)
{
    const bool is_full = (count & (count - 1)) == 0; /* 0 or a power of two */

    return is_full ? gf_cli_memory(reallocarray(list, count ? 2 * count : 1, element)) : list;
}

uint32_t gf_job_add_process(struct gf_job *job)
{
    *GF_JOB_ADD(job->processes, job->process_count) = (struct gf_job_process){.rank = -1};
    return (uint32_t)job->process_count - 1;
}

uint32_t gf_job_thread_of(struct gf_job *job, uint32_t process, int64_t tid)
{
    char key[sizeof(process) + sizeof(tid)];
    bool is_new;

    memcpy(key, &process, sizeof(process));
    memcpy(key + sizeof(process), &tid, sizeof(tid));
    const uint32_t number = gf_text_pool_add(&job->thread_keys, key, sizeof(key), &is_new);
    if (is_new)
        *GF_JOB_ADD(job->threads, job->thread_count) =
            (struct gf_job_thread){.process = process, .tid = tid};
    return number - 1;
}

const char *gf_job_text(const struct gf_job *job, uint32_t text)
{
    return gf_text_pool_get(&job->texts, text);
}

const char *gf_job_process_name(const struct gf_job_process *process)
{
    return process->rank >= 0 ? gf_text("rank %ld", process->rank)
                              : gf_text("process %ld", process->pid);
}

bool gf_job_has_log(const struct gf_job *job)
{
    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].logged)
            return true;
    return false;
}

void gf_job_free(struct gf_job *job)
{
    for (size_t i = 0; i < job->process_count; i++)
        json_decref(job->processes[i].report);
    gf_text_pool_free(&job->texts);
    gf_text_pool_free(&job->stack_keys);
    gf_text_pool_free(&job->thread_keys);
    free(job->processes);
    free(job->threads);
    free(job->stacks);
    free(job->stalls);
    free(job->notes);
    free(job->marks);
    free(job->activity);
    free(job->copies);
    free(job->frames);
    json_decref(job->doctors);
    *job = (struct gf_job){0};
}

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

/*
 * Parses the text after the seconds of a time: nothing, or a fraction of a second such as ".5".
 * Returns false for other text.
 */
static bool parse_fraction(const char *text, double *ret)
{
    char *rest;

    *ret = 0;
    if (*text != '.')
        return !*text;
    *ret = strtod(text, &rest);
    return !*rest && *ret < 1;
}

/*
 * Parses a local time. Without a date in the text, *ret is the time on the current day, and
 * *ret_of_day the seconds after midnight. With a date, *ret_of_day is -1.
 */
static bool parse_moment(const char *text, double *ret, double *ret_of_day)
{
    static const char *const formats[] = {
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
        "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};
    const time_t now = time(NULL);
    double fraction;

    for (size_t i = 0; i < GF_ARRAY_LEN(formats); i++) {
        struct tm at;
        if (!localtime_r(&now, &at))
            return false;
        at.tm_sec = at.tm_min = at.tm_hour = 0;
        const char *rest = strptime(text, formats[i], &at);
        if (!rest || !parse_fraction(rest, &fraction))
            continue;
        *ret_of_day =
            formats[i][1] == 'Y' ? -1 : at.tm_hour * 3600 + at.tm_min * 60 + at.tm_sec + fraction;
        at.tm_isdst = -1;
        const time_t moment = mktime(&at);
        *ret = (double)moment + fraction;
        return moment > 0;
    }
    return false;
}

bool gf_job_filter_since(struct gf_job_filter *filter, const char *text)
{
    filter->of_day = -1;
    return parse_length(text, &filter->last_s) ||
           parse_moment(text, &filter->since, &filter->of_day);
}

bool gf_job_filter_needs_job(const struct gf_job_filter *filter)
{
    return filter->last_s > 0 || (filter->since > 0 && filter->of_day >= 0);
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

/* Returns when the given time of day was on the day that is `days` days before the day of `end`. */
static double time_of_day(double end, double of_day, int days)
{
    const time_t second = (time_t)end;
    struct tm at;

    if (!localtime_r(&second, &at))
        return 0;
    at.tm_mday -= days;
    at.tm_hour = at.tm_min = 0;
    at.tm_sec = (int)of_day; /* mktime converts it to hours and minutes */
    at.tm_isdst = -1;
    return (double)mktime(&at) + of_day - (int)of_day;
}

double gf_job_filter_moment(const struct gf_job *job, const struct gf_job_filter *filter)
{
    const double end = end_of(job);

    if (filter->last_s > 0)
        return end - filter->last_s;
    if (filter->since <= 0 || filter->of_day < 0 || end <= 0)
        return filter->since;
    const double moment = time_of_day(end, filter->of_day, 0);
    return moment <= end ? moment : time_of_day(end, filter->of_day, 1);
}

/*
 * Defines keep_<list>, which keeps the elements of a list whose process is not excluded, and for which
 * `wanted` holds.
 */
#define KEEP(list, count, type, wanted)                                                            \
    static void keep_##list(struct gf_job *job, double since)                                      \
    {                                                                                              \
        size_t kept = 0;                                                                           \
        for (size_t i = 0; i < job->count; i++) {                                                  \
            const type at = job->list[i];                                                          \
            if (!job->processes[at.process].excluded && (wanted))                                  \
                job->list[kept++] = at;                                                            \
        }                                                                                          \
        job->count = kept;                                                                         \
    }
KEEP(stalls, stall_count, struct gf_stall, at.at + at.us / 1e6 >= since)
KEEP(notes, note_count, struct gf_note, at.at >= since)
KEEP(marks, mark_count, struct gf_step_mark, at.at >= since)
KEEP(activity, activity_count, struct gf_activity, at.to > since)
KEEP(copies, copy_count, struct gf_long_copy, at.at + at.us / 1e6 >= since)

void gf_job_filter_apply(struct gf_job *job, const struct gf_job_filter *filter)
{
    for (size_t i = 0; i < job->process_count; i++)
        job->processes[i].excluded = !gf_job_filter_takes_rank(filter, job->processes[i].rank);
    const double since = gf_job_filter_moment(job, filter);
    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].first > 0 && job->processes[i].first < since)
            job->since = since;
    keep_stalls(job, since);
    keep_notes(job, since);
    keep_marks(job, since);
    keep_activity(job, since);
    keep_copies(job, since);
    for (size_t i = 0; i < job->process_count; i++)
        job->processes[i].first = gf_max(job->processes[i].first, since);
}

static const char *time_text(double at)
{
    const time_t second = (time_t)at;
    struct tm tm;
    char text[32];

    return localtime_r(&second, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm)
               ? gf_text("%s", text)
               : gf_text("%.0f", at);
}

/* Says that no process has a rank of --rank, and which ranks the files have. */
static const char *name_ranks(const struct gf_job *job)
{
    int64_t first = RANK_MAX + 1, last = -1;

    for (size_t i = 0; i < job->process_count; i++) {
        if (job->processes[i].rank < 0)
            continue;
        first = gf_min(first, job->processes[i].rank);
        last = gf_max(last, job->processes[i].rank);
    }
    if (last < 0)
        return "--rank: no process of these files has a rank";
    return gf_text(first == last
                       ? "--rank: no process has any of these ranks; the files have rank "
                         "%ld"
                       : "--rank: no process has any of these ranks; the files have ranks "
                         "%ld to %ld",
                   first, last);
}

const char *gf_job_filter_emptied(const struct gf_job *job, const struct gf_job_filter *filter)
{
    const double end = end_of(job), since = gf_job_filter_moment(job, filter);
    bool has_process = false;

    for (size_t i = 0; i < job->process_count; i++)
        has_process |= !job->processes[i].excluded;
    if (job->process_count && !has_process)
        return name_ranks(job);
    return end <= 0 || since <= end ? NULL
                                    : gf_text("--since: the job ended at %s, before %s",
                                              time_text(end), time_text(since));
}
