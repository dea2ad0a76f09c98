/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"
#include "base/parse.h"
#include "page.h"
#include "tools/common/cli.h"
#include "tools/report/outputs.h"

#include <time.h>

#define TABLE_ROWS 15
#define REPORTS_MAX 512
/* Of settings, of files of `gpufeed doctor --json`, and of the findings of each. */
#define ROWS_MAX 1000
#define RANKS_MAX 10000 /* and remedies; a browser fails to draw 150 000 of them */

/* Escapes "</script>", which would end the script element that contains the JSON. */
static int write_escaped(const char *text, size_t size, void *out)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(text[i], out);
    return 0;
}

/* Returns a copy of the object with only those members that are integers, and whose name is a node. */
static json_t *numbers_of(const json_t *object)
{
    const char *key;
    json_t *value, *map = json_object();
    uint64_t node;

    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        char name[8];
        if (!json_is_integer(value) || gf_parse_u64(key, &node) || node >= GF_NODES_MAX)
            continue;
        snprintf(name, sizeof(name), "%lu", node);
        json_object_set(map, name, value);
    }
    return map;
}

static void add_locality(json_t *list, const struct gf_job_process *process)
{
    static const char *const kinds[] = {"heap", "other"};
    const json_t *sample = json_array_get(gf_report_at(process->report, "samples"), 0);

    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        const json_t *nodes = gf_report_at(json_object_get(sample, kinds[i]), "by_node");
        if (json_object_size(nodes))
            json_array_append_new(list,
                                  json_pack("{s:s,s:s,s:o}", "name", gf_job_process_name(process),
                                            "kind", kinds[i], "by_node", numbers_of(nodes)));
    }
}

/* The settings of all reports; row N of the list belongs to key N + 1. */
struct settings {
    json_t *list;
    struct gf_text_pool keys;
};

static json_t *setting_of(struct settings *settings, const char *name, const char *value,
                          const char *origin)
{
    char key[64 + 512 + 2];
    bool is_new;
    const int length = snprintf(key, sizeof(key), "%s=%s", name, value);
    const uint32_t number = gf_text_pool_add(&settings->keys, key, (size_t)length, &is_new);

    if (is_new)
        json_array_append_new(settings->list, json_pack("{s:s,s:s,s:s,s:i}", "name", name, "value",
                                                        value, "origin", origin, "count", 0));
    return number ? json_array_get(settings->list, number - 1) : NULL;
}

static void add_settings(struct settings *settings, const json_t *report)
{
    const char *key;
    json_t *option, *options = json_object_get(report, "options");

    json_object_foreach(options, key, option) {
        const char *origin = gf_report_text(option, "origin", 32);
        if (strcmp(origin, "default") == 0 || json_array_size(settings->list) == ROWS_MAX)
            continue;
        json_t *row = setting_of(settings, gf_report_plain(key, 64),
                                 gf_report_text(option, "value", 512), origin);
        json_integer_set(json_object_get(row, "count"),
                         json_integer_value(json_object_get(row, "count")) + 1);
    }
}

static void add_reports(json_t *page, const struct gf_job *job)
{
    json_t *locality = json_array();
    struct settings settings = {.list = json_array()};
    unsigned count = 0;

    for (size_t i = 0; i < job->process_count && count < REPORTS_MAX; i++) {
        if (!job->processes[i].report || job->processes[i].excluded)
            continue;
        count++;
        add_locality(locality, &job->processes[i]);
        add_settings(&settings, job->processes[i].report);
    }
    json_object_set_new(page, "locality", locality);
    json_object_set_new(page, "settings", settings.list);
    gf_text_pool_free(&settings.keys);
}

/* Returns the outputs of `gpufeed doctor --json`, without the findings whose status is "ok". */
static json_t *doctors_of(const struct gf_job *job)
{
    json_t *list = json_array(), *doctor, *finding;
    size_t i, k;

    json_array_foreach(job->doctors, i, doctor) {
        json_t *rows = json_array();
        int well = 0;
        if (i == ROWS_MAX)
            break;
        json_array_foreach(json_object_get(doctor, "findings"), k, finding) {
            const char *status = gf_report_text(finding, "status", 16);
            if (strcmp(status, "ok") == 0) {
                well++;
                continue;
            }
            if (json_array_size(rows) == ROWS_MAX)
                continue;
            json_array_append_new(rows, json_pack("[s,s,s,s,s]", status,
                                                  gf_report_text(finding, "check", 64),
                                                  gf_report_text(finding, "summary", 512),
                                                  gf_report_text(finding, "why", 512),
                                                  gf_report_text(finding, "fix", 1024)));
        }
        json_array_append_new(list,
                              json_pack("{s:O,s:i,s:o}", "file", json_object_get(doctor, "file"),
                                        "well", well, "rows", rows));
    }
    return list;
}

/*
 * Returns a list for each state or cause: its name, its description, its share of the GPUs' time,
 * and its main line.
 */
static json_t *parts_of(const struct gf_gpu_time *time, const struct gf_gpu_parts *parts,
                        enum gf_help of)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < parts->count && time->s > 0; i++) {
        const struct gf_gpu_part *part = &parts->list[i];
        if (part->s > 0)
            json_array_append_new(list,
                                  json_pack("[s,s,f,s*]", part->name, gf_help_words(of, part->name),
                                            part->s / time->s, *part->line ? part->line : NULL));
    }
    return list;
}

/* Seconds by which local time is ahead of UTC. */
static int utc_offset(double at)
{
    const time_t second = (time_t)(at > 0 && at < 1e11 ? at : 0);
    struct tm local;

    return localtime_r(&second, &local) ? (int)local.tm_gmtoff : 0;
}

static json_t *page_of(const struct gf_answer *answer)
{
    const struct gf_gpu_time *time = &answer->gpu_time;
    json_t *page = json_pack("{s:o,s:f,s:f,s:i,s:I,s:i,s:o,s:o,s:{s:i,s:f,s:o,s:o}}", "answer",
                             gf_answer_json(answer, TABLE_ROWS, GF_BY_COUNT, RANKS_MAX), "from",
                             answer->from, "to", answer->to, "utcOffset", utc_offset(answer->from),
                             "stalls", (json_int_t)answer->job->stall_count, "bins",
                             GF_TIMELINE_BINS, "stalled", gf_stall_stacks(answer->job), "idle",
                             gf_idle_stacks(answer->job), "gpu", "devices", (int)time->devices, "s",
                             time->s, "states", parts_of(time, &time->states, gf_help_state),
                             "causes", parts_of(time, &time->causes, gf_help_host));

    json_object_set_new(page, "scope", json_string(gf_verdict_scope(answer)));
    gf_timeline_add(page, answer);
    add_reports(page, answer->job);
    json_object_set_new(page, "doctors", doctors_of(answer->job));
    return gf_cli_memory(page);
}

void gf_html_write(FILE *out, const struct gf_answer *answer)
{
    json_t *page = page_of(answer);

    fwrite(gf_page_head, 1, sizeof(gf_page_head), out);
    gf_cli_memory(json_dump_callback(page, write_escaped, out, JSON_COMPACT) ? NULL : page);
    fwrite(gf_page_tail, 1, sizeof(gf_page_tail), out);
    json_decref(page);
}
