/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/parts.h"

#include "base/fmt.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>

#define GPU_LEVELS 5

static void add_gpu_number(struct gf_answer *answer, const char *name, double number)
{
    unsigned at = 0;

    while (at < answer->gpu_count && strcmp(answer->gpu[at].name, name) != 0)
        at++;
    if (at == GF_GPU_NUMBERS)
        return;
    if (at == answer->gpu_count) {
        snprintf(answer->gpu[at].name, sizeof(answer->gpu[at].name), "%s", name);
        answer->gpu_count++;
    }
    answer->gpu[at].sum += number;
    answer->gpu[at].count++;
}

static void add_gpu_time(struct gf_answer *answer, const json_t *section, const char *prefix,
                         unsigned levels);

static void add_gpu_value(struct gf_answer *answer, const json_t *value, const char *prefix,
                          const char *key, unsigned levels)
{
    char name[sizeof(answer->gpu[0].name)];

    snprintf(name, sizeof(name), *prefix ? "%s.%s" : "%s%s", prefix, key);
    gf_plain_text(name);
    if (json_is_number(value))
        add_gpu_number(answer, name, json_number_value(value));
    else if (levels)
        add_gpu_time(answer, value, name, levels - 1);
}

/*
 * Adds each number in the section to answer->gpu. A number's name is its path, such as
 * "devices.0.samples".
 */
static void add_gpu_time(struct gf_answer *answer, const json_t *section, const char *prefix,
                         unsigned levels)
{
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)section, key, value)
        add_gpu_value(answer, value, prefix, key, levels);
    json_array_foreach(section, i, value)
        add_gpu_value(answer, value, prefix, gf_text("%zu", i), levels);
}

/* Stalls that a process counted, but its log lacks. The report of a running process may be newer than its log. */
static uint64_t unlogged_of(const struct gf_job_process *process, bool is_running)
{
    const uint64_t counted = (uint64_t)gf_report_number(process->report, "stalls.count");
    const uint64_t known = process->stalls + process->dropped;

    return !process->logged || is_running || counted <= known ? 0 : counted - known;
}

static void add_report(struct gf_answer *answer, const struct gf_job_process *process)
{
    const bool is_running = strcmp(gf_report_text(process->report, "state", 16), "running") == 0;

    answer->reported++;
    answer->running += is_running;
    answer->unlogged += unlogged_of(process, is_running);
    answer->observing += json_is_true(gf_report_at(process->report, "observe"));
    gf_copies_add(&answer->copies, process->report);
    add_gpu_time(answer, gf_report_at(process->report, "gpu_time"), "", GPU_LEVELS);
    gf_gpu_time_add(&answer->gpu_time, process->report, process->rank);
    if (process->logged)
        return;
    answer->stalls += (uint64_t)gf_report_number(process->report, "stalls.count");
    answer->stall_us += (uint64_t)gf_report_number(process->report, "stalls.us");
}

static void add_end(struct gf_answer *answer, const struct gf_job_process *process)
{
    if (!process->uses_gpu || process->exited || process->report)
        return;
    answer->unended++;
    if (!answer->first_unended || process->last < answer->first_unended->last)
        answer->first_unended = process;
}

static void add_process(struct gf_answer *answer, const struct gf_job_process *process)
{
    answer->processes++;
    if (process->first > 0 && (answer->from <= 0 || process->first < answer->from))
        answer->from = process->first;
    answer->to = gf_max(answer->to, process->last);
    answer->delay_ms += process->delay_ms;
    answer->throttled_ms += process->throttled_ms;
    answer->fault_ms += process->fault_ms;
    answer->dropped += process->dropped;
    add_end(answer, process);
    if (process->report)
        add_report(answer, process);
}

static size_t count_hosts(const struct gf_job *job)
{
    GF_OWNED bool *seen = gf_cli_alloc(job->texts.count, sizeof(*seen)); /* by text */
    size_t count = 0;

    for (size_t i = 0; i < job->process_count; i++) {
        const uint32_t host = job->processes[i].host;
        if (!host || job->processes[i].excluded)
            continue;
        count += !seen[host];
        seen[host] = true;
    }
    return count;
}

/* Adds the stalls of a process without a log to answer->causes, from the sums in its report. */
static void add_reported_causes(struct gf_answer *answer, const struct gf_job_process *process)
{
    const json_t *causes = gf_report_at(process->report, "stalls.causes");
    const char *name;
    json_t *cause;

    json_object_foreach((json_t *)(uintptr_t)causes, name, cause) {
        const char *text = gf_report_plain(name, 64);
        const uint32_t key = gf_text_pool_find(&answer->job->texts, text, strlen(text));
        if (key || !*text)
            gf_tally_add(&answer->causes, key, (uint64_t)gf_report_number(cause, "count"),
                         (uint64_t)gf_report_number(cause, "us"), process->first, process->last);
    }
}

/*
 * Returns when the first step began and the last step ended. The start and the end of a program are
 * left out, because they differ from its steps. If there are no steps, returns the times of the
 * whole job.
 */
static void step_window(const struct gf_answer *answer, double *ret_from, double *ret_to)
{
    const struct gf_steps *steps = &answer->steps;

    *ret_from = steps->count ? steps->list[0].at : answer->from;
    *ret_to = steps->count ? steps->list[0].at : answer->to;
    for (size_t i = 0; i < steps->count; i++) {
        const struct gf_step *step = &steps->list[i];
        *ret_from = gf_min(*ret_from, step->at);
        *ret_to = gf_max(*ret_to, step->is_open ? answer->to : step->at + step->s);
    }
}

void gf_answer_make(const struct gf_job *job, const struct gf_read_counts *counts,
                    struct gf_answer *ret)
{
    double from, to;

    *ret = (struct gf_answer){.job = job, .counts = counts, .stalls = job->stall_count};
    for (size_t i = 0; i < job->process_count; i++)
        if (!job->processes[i].excluded)
            add_process(ret, &job->processes[i]);
    for (size_t i = 0; i < job->stall_count; i++) {
        ret->stall_us += job->stalls[i].us;
        ret->longest_us = gf_max(ret->longest_us, job->stalls[i].us);
    }
    for (size_t i = 0; i < job->activity_count; i++)
        gf_logged_gpu_add(&ret->logged_gpu, job, &job->activity[i]);
    ret->hosts = count_hosts(job);
    ret->causes = gf_tally(job, GF_BY_CAUSE, GF_BY_SITE);
    ret->sites = gf_tally(job, GF_BY_SITE, GF_BY_CAUSE);
    ret->threads = gf_tally(job, GF_BY_THREAD, GF_BY_SITE);
    ret->ranks = gf_tally(job, GF_BY_RANK, GF_BY_SITE);
    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].report && !job->processes[i].logged && !job->processes[i].excluded)
            add_reported_causes(ret, &job->processes[i]);
    gf_tally_join(&ret->causes);
    ret->steps = gf_steps_find(job);
    ret->reported_steps = gf_reported_steps_find(job);
    ret->table = gf_rank_table_make(job, &ret->steps, &ret->reported_steps);
    gf_copies_finish(&ret->copies);
    gf_gpu_time_finish(&ret->gpu_time);
    step_window(ret, &from, &to);
    ret->onset = gf_onset_find(job, from, to, ret->sites.count ? ret->sites.rows->key : -1);
}

void gf_answer_free(struct gf_answer *answer)
{
    free(answer->causes.rows);
    free(answer->sites.rows);
    free(answer->threads.rows);
    free(answer->ranks.rows);
    free(answer->table.rows);
    free(answer->table.next);
    free(answer->steps.list);
    free(answer->reported_steps.list);
    gf_lines_free(&answer->verdict);
    gf_lines_free(&answer->differing);
    gf_lines_free(&answer->helps);
    gf_lines_free(&answer->notes);
}
