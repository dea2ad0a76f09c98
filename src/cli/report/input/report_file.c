/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/report_file.h"

#include "base/plain_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/*
 * A process may log events before its report begins (at cuInit) and after its report ends. A log
 * and a report are from the same process only if the log ends at most BEFORE_S seconds before the
 * report begins, and begins at most BEHIND_S seconds after the report ends.
 */
#define BEFORE_S 3600
#define BEHIND_S 60

const json_t *gf_report_at(const json_t *report, const char *path)
{
    char name[64];

    while (report && *path) {
        const size_t length = strcspn(path, ".");
        if (length >= sizeof(name))
            return NULL;
        memcpy(name, path, length);
        name[length] = '\0';
        report = json_object_get(report, name);
        path += length + (path[length] == '.');
    }
    return report;
}

double gf_report_number(const json_t *report, const char *path)
{
    const double number = json_number_value(gf_report_at(report, path));
    return number >= 0 && number < 1e18 ? number : 0;
}

const char *gf_report_text(const json_t *report, const char *path, char *buf, size_t size)
{
    const char *text = json_string_value(gf_report_at(report, path));

    snprintf(buf, size, "%s", text ? text : "");
    return gf_plain_text(buf);
}

const char *gf_report_plain(const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s", name);
    return gf_plain_text(buf);
}

static bool is_report(const json_t *value)
{
    return json_is_object(value) && json_is_number(json_object_get(value, "started")) &&
           json_object_get(value, "schema") && json_object_get(value, "options");
}

/*
 * Removes the largest parts of a report that the command does not use, to save memory: two sections,
 * and all samples but the last one.
 */
static void drop_parts(json_t *report)
{
    json_t *samples = json_object_get(report, "samples");
    const size_t count = json_array_size(samples);

    json_object_del(report, "latency");
    json_object_del(report, "hooks");
    for (size_t i = 1; i < count; i++)
        json_array_remove(samples, 0);
}

unsigned gf_report_file_add(json_t *reports, struct gf_span text)
{
    unsigned count = 0;

    while (text.size) {
        json_error_t error;
        json_t *report = json_loadb(text.at, text.size, JSON_DISABLE_EOF_CHECK, &error);
        if (!is_report(report)) {
            json_decref(report);
            return count;
        }
        drop_parts(report);
        if (json_array_append_new(reports, report))
            return count;
        count++;
        text.at += error.position;
        text.size -= (size_t)error.position;
        while (text.size && strchr(" \t\r\n", *text.at) && *text.at) {
            text.at++;
            text.size--;
        }
    }
    return count;
}

bool gf_report_file_begins(struct gf_span text)
{
    static const char key[] = "\"schema\"";
    size_t at = 1; /* after the brace */

    while (at < text.size && isspace((unsigned char)text.at[at]))
        at++;
    return at < text.size && *text.at == '{' &&
           memcmp(text.at + at, key, gf_min(sizeof(key) - 1, text.size - at)) == 0;
}

/*
 * Whether the value is the output of `gpufeed doctor --json`: it has a list of findings, each with
 * a status and a summary.
 */
static bool is_doctor(const json_t *value)
{
    const json_t *findings = json_object_get(value, "findings"), *finding;
    size_t i;

    json_array_foreach(
        findings, i,
        finding) if (!json_is_string(json_object_get(finding, "status")) ||
                     !json_is_string(json_object_get(finding, "summary"))) return false;
    return json_is_array(findings) && json_object_get(value, "schema");
}

bool gf_report_file_add_doctor(struct gf_job *job, struct gf_span text, const char *file)
{
    json_t *value = json_loadb(text.at, text.size, 0, NULL);
    char name[512];

    if (!is_doctor(value)) {
        json_decref(value);
        return false;
    }
    snprintf(name, sizeof(name), "%s", file);
    json_object_set_new(value, "file", json_string(gf_plain_text(name)));
    if (!job->doctors)
        job->doctors = json_array();
    return !json_array_append_new(job->doctors, value);
}

static int64_t report_rank(const json_t *report)
{
    const json_t *rank = gf_report_at(report, "start.rank.rank");
    return json_is_integer(rank) ? json_integer_value(rank) : -1;
}

static bool belongs_to(const struct gf_job *job, const struct gf_job_process *process,
                       const json_t *report)
{
    const double started = gf_report_number(report, "started");
    char program[1024];

    if (process->report || process->pid != json_integer_value(json_object_get(report, "pid")))
        return false;
    if (process->program &&
        (process->rank != report_rank(report) ||
         strcmp(gf_job_text(job, process->program),
                gf_report_text(report, "program", program, sizeof(program))) != 0))
        return false;
    return process->last >= started - BEFORE_S &&
           process->first <= started + gf_report_number(report, "ran_s") + BEHIND_S;
}

/*
 * Whether the report is a later report of a process that already has one. A file that was written
 * through a pipe contains all reports of its process.
 */
static bool renews(const struct gf_job_process *process, const json_t *report)
{
    static const char *const same[] = {"pid", "started", "program", "start"};

    for (size_t i = 0; i < GF_ARRAY_LEN(same); i++)
        if (!process->report || !json_equal(json_object_get(process->report, same[i]),
                                            json_object_get(report, same[i])))
            return false;
    return true;
}

static struct gf_job_process *process_for(struct gf_job *job, const json_t *report)
{
    char program[1024];

    for (size_t i = 0; job->processes && i < job->process_count; i++)
        if (renews(&job->processes[i], report) || belongs_to(job, &job->processes[i], report))
            return &job->processes[i];
    const uint32_t number = gf_job_add_process(job);
    if (number == UINT32_MAX)
        return NULL;
    struct gf_job_process *process = &job->processes[number];
    process->pid = json_integer_value(json_object_get(report, "pid"));
    process->rank = report_rank(report);
    process->program =
        gf_text_pool_put(&job->texts, gf_report_text(report, "program", program, sizeof(program)));
    return process;
}

/*
 * Adds the names of the report's causes to the job's texts, which already contain the causes in
 * logs.
 */
static void add_causes(struct gf_job *job, const json_t *report)
{
    const char *name;
    json_t *cause, *causes = json_object_get(json_object_get(report, "stalls"), "causes");

    json_object_foreach(causes, name, cause)
    {
        char text[64];
        snprintf(text, sizeof(text), "%s", name);
        gf_text_pool_put(&job->texts, gf_plain_text(text));
    }
}

void gf_report_file_join(struct gf_job *job, json_t *reports)
{
    size_t i;
    json_t *report;

    json_array_foreach(reports, i, report)
    {
        struct gf_job_process *process = process_for(job, report);
        const double started = gf_report_number(report, "started");
        if (!process) {
            job->lost++;
            continue;
        }
        json_decref(process->report);
        process->report = json_incref(report);
        add_causes(job, report);
        if (started > 0 && (process->first <= 0 || started < process->first))
            process->first = started;
        process->last = gf_max(process->last, started + gf_report_number(report, "ran_s"));
    }
}
