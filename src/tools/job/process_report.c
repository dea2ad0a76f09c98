/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "base/fmt.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <ctype.h>
#include <stdlib.h>

/*
 * A process may log events before its report begins (at cuInit) and after its report ends. A log
 * and a report are from the same process only if the log ends at most BEFORE_S seconds before the
 * report begins, and begins at most BEHIND_S seconds after the report ends.
 */
#define BEFORE_S 3600
#define BEHIND_S 60
#define SAME_PID_MOST 64

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
    return number > 1e-18 && number < 1e18 ? number : 0; /* quotients are finite */
}

const char *gf_report_plain(const char *name, size_t size)
{
    return gf_plain_text(gf_text("%.*s", (int)size - 1, name));
}

const char *gf_report_text(const json_t *report, const char *path, size_t size)
{
    return gf_report_plain(json_string_value(gf_report_at(report, path)) ?: "", size);
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
    json_t *last = json_incref(json_array_get(samples, json_array_size(samples) - 1));

    json_object_del(report, "latency");
    json_object_del(report, "hooks");
    json_array_clear(samples);
    if (last)
        json_array_append_new(samples, last);
}

/*
 * Of all reports and outputs of the doctor. A value takes about 130 bytes. A report of the library has
 * about 1000.
 */
#define VALUES_MOST ((size_t)1 << 26)

/* Counts the values of a text, at least as many as it has, and ends the command if they are too many. */
static void count_values(const char *text, size_t size)
{
    static size_t values;

    for (size_t i = 0; i < size; i++)
        values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    if (values <= VALUES_MOST)
        return;
    gf_cli_error("the reports have more than %zu values; name fewer reports", VALUES_MOST);
    exit(GF_EXIT_FAILED);
}

unsigned gf_report_file_add(json_t *reports, struct gf_span text)
{
    unsigned count = 0;

    while (text.size) {
        json_error_t error;
        json_t *report = json_loadb(text.at, gf_min(text.size, (size_t)GF_REPORT_MOST),
                                    JSON_DISABLE_EOF_CHECK, &error);
        if (!is_report(report)) {
            json_decref(report);
            return count;
        }
        drop_parts(report);
        count_values(text.at, (size_t)error.position);
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

    json_array_foreach(findings, i, finding)
        if (!json_is_string(json_object_get(finding, "status")) ||
            !json_is_string(json_object_get(finding, "summary")))
            return false;
    return json_is_array(findings) && json_object_get(value, "schema");
}

bool gf_report_file_add_doctor(struct gf_job *job, struct gf_span text, const char *file)
{
    json_t *value = text.size > GF_REPORT_MOST ? NULL : json_loadb(text.at, text.size, 0, NULL);

    if (!is_doctor(value)) {
        json_decref(value);
        return false;
    }
    count_values(text.at, text.size);
    json_object_set_new(value, "file", json_string(gf_report_plain(file, 512)));
    if (!job->doctors)
        job->doctors = json_array();
    return !json_array_append_new(job->doctors, value);
}

int64_t gf_report_rank(const json_t *report)
{
    const json_t *rank = gf_report_at(report, "start.rank.rank");
    return json_is_integer(rank) ? json_integer_value(rank) : -1;
}

static bool belongs_to(const struct gf_job *job, const struct gf_job_process *process,
                       const json_t *report)
{
    const double started = gf_report_number(report, "started");

    if (process->report || process->pid != json_integer_value(json_object_get(report, "pid")))
        return false;
    if (process->program &&
        (process->rank != gf_report_rank(report) ||
         strcmp(gf_job_text(job, process->program), gf_report_text(report, "program", 1024)) != 0))
        return false;
    return process->last >= started - BEFORE_S &&
           process->first <= started + gf_report_number(report, "ran_s") + BEHIND_S;
}

/*
 * Finds the processes of reports in a time that does not depend on their number: a file may have many
 * reports.
 */
struct join {
    struct gf_job *job;
    struct gf_text_pool keys; /* of reports */
    uint32_t *processes;      /* by the number of the key */
    uint32_t *by_pid;         /* the processes of logs, sorted by pid */
    size_t logged;
};

static int compare_pids(const void *a, const void *b, void *closure)
{
    const struct gf_job *job = closure;
    const uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    const int64_t x = job->processes[one].pid, y = job->processes[other].pid;
    return x != y ? (x < y ? -1 : 1) : (one > other) - (one < other);
}

static void begin_join(struct join *join, struct gf_job *job, size_t reports)
{
    *join = (struct join){.job = job, .logged = job->process_count};
    join->processes = gf_cli_alloc(reports + 2, sizeof(*join->processes));
    join->by_pid = gf_cli_alloc(join->logged, sizeof(*join->by_pid));
    for (uint32_t i = 0; i < join->logged; i++)
        join->by_pid[i] = i;
    qsort_r(join->by_pid, join->logged, sizeof(*join->by_pid), compare_pids, job);
}

/* Returns the process whose log belongs to the report; UINT32_MAX if there is none. */
static uint32_t find_logged(const struct join *join, const json_t *report)
{
    const int64_t pid = json_integer_value(json_object_get(report, "pid"));
    const struct gf_job_process *list = join->job->processes;
    const size_t first = GF_FRONT_COUNT(i, join->logged, list[join->by_pid[i]].pid < pid);

    /* More programs with one pid are not compared. */
    for (size_t i = first; i < gf_min(join->logged, first + SAME_PID_MOST); i++)
        if (belongs_to(join->job, &list[join->by_pid[i]], report))
            return join->by_pid[i];
    return UINT32_MAX;
}

/*
 * Returns the number of the process that the report describes. A file that was written through a
 * pipe contains all reports of its process, and reports with equal members are of one process.
 */
static uint32_t key_of(struct join *join, const json_t *report)
{
    json_t *same =
        json_pack("[O,O,O,O]", json_object_get(report, "pid"), json_object_get(report, "started"),
                  json_object_get(report, "program"), json_object_get(report, "start"));
    GF_OWNED char *text = same ? json_dumps(same, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const uint32_t number = text ? gf_text_pool_put(&join->keys, text) : 0;

    json_decref(same);
    return number;
}

static uint32_t add_reported(struct gf_job *job, const json_t *report)
{
    const uint32_t number = gf_job_add_process(job);
    struct gf_job_process *process = &job->processes[number];
    process->pid = json_integer_value(json_object_get(report, "pid"));
    process->rank = gf_report_rank(report);
    process->program = gf_text_pool_put(&job->texts, gf_report_text(report, "program", 1024));
    return number;
}

static struct gf_job_process *process_for(struct join *join, const json_t *report)
{
    const uint32_t key = key_of(join, report);
    uint32_t number = key && join->processes[key] ? join->processes[key] - 1 : UINT32_MAX;

    if (number == UINT32_MAX)
        number = find_logged(join, report);
    if (number == UINT32_MAX)
        number = add_reported(join->job, report);
    if (key)
        join->processes[key] = number + 1;
    return &join->job->processes[number];
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
        gf_text_pool_put(&job->texts, gf_report_plain(name, 64));
}

void gf_report_file_join(struct gf_job *job, json_t *reports)
{
    size_t i;
    json_t *report;
    struct join join;

    begin_join(&join, job, json_array_size(reports));
    json_array_foreach(reports, i, report) {
        struct gf_job_process *process = process_for(&join, report);
        const double started = gf_report_number(report, "started");
        json_decref(process->report);
        process->report = json_incref(report);
        add_causes(job, report);
        if (started > 0 && (process->first <= 0 || started < process->first))
            process->first = started;
        process->last = gf_max(process->last, started + gf_report_number(report, "ran_s"));
    }
    free(join.processes);
    free(join.by_pid);
    gf_text_pool_free(&join.keys);
}
