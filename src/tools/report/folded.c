/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/cli.h"
#include "tools/report/outputs.h"

#include <stdlib.h>

/* A line of output: the sum of the stalls with these properties. */
struct line {
    int64_t key; /* value of the property `by`; 0 without --by */
    uint32_t stack, call, cause;
    uint64_t us;
};

GF_COMPARATOR(by_line, struct line,
              (gf_order(one->key, other->key) ?: gf_order(one->stack, other->stack))
                  ?: (gf_order(one->call, other->call) ?: gf_order(one->cause, other->cause)))

/* Replaces semicolons, because they separate frames. */
static void print_frame(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text == ';' ? ':' : *text, out);
}

/* Prints the frames, each with a semicolon behind it. */
static void print_stack(FILE *out, const struct gf_job *job, const struct gf_job_stack *stack)
{
    for (uint32_t i = 0; i < stack->count; i++) {
        print_frame(out, gf_job_text(job, job->frames[stack->frame + i]));
        fputc(';', out);
    }
}

static void print_line(const struct gf_job *job, const struct line *line, enum gf_by by)
{
    if (by != GF_BY_COUNT) {
        print_frame(stdout, gf_tally_label(job, by, line->key));
        fputc(';', stdout);
    }
    print_stack(stdout, job, &job->stacks[line->stack]);
    print_frame(stdout, gf_job_text(job, line->call));
    fputs(" (", stdout);
    print_frame(stdout, gf_job_text(job, line->cause));
    printf(") %lu\n", line->us);
}

/* Returns the lines of all stalls, sorted, and their number. The caller frees them. */
static struct line *lines_of(const struct gf_job *job, enum gf_by by, size_t *ret_count)
{
    struct line *lines = gf_cli_alloc(job->stall_count, sizeof(*lines));

    *ret_count = 0;
    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        lines[i] = (struct line){by == GF_BY_COUNT ? 0 : gf_tally_key(job, stall, by), stall->stack,
                                 stall->call, stall->cause, stall->us};
    }
    qsort(lines, job->stall_count, sizeof(*lines), by_line);
    for (size_t i = 0; i < job->stall_count; i++) {
        if (*ret_count && by_line(&lines[*ret_count - 1], &lines[i]) == 0)
            lines[*ret_count - 1].us += lines[i].us;
        else
            lines[(*ret_count)++] = lines[i];
    }
    return lines;
}

void gf_folded_print(const struct gf_job *job, enum gf_by by)
{
    size_t count;
    GF_OWNED struct line *lines = lines_of(job, by, &count);

    for (size_t i = 0; i < count; i++)
        if (lines[i].us)
            print_line(job, &lines[i], by);
}

#define PAGE_ROWS 50000u
#define PAGE_BYTES (1u << 20)

/* Times by stack: frames and a cause, joined by semicolons. */
struct stacks {
    bool by_rank;
    struct gf_text_pool texts;
    uint64_t *us; /* of each stack */
    size_t room;
    json_t *rows; /* NULL: not wanted */
};

/* Adds the time to the stack, which is "..." if the page has no space for another one. */
static void add_stack(struct stacks *stacks, int64_t rank, const char *text, size_t length,
                      uint64_t us)
{
    bool is_new;
    const uint32_t number = gf_text_pool_add(&stacks->texts, text, length, &is_new);

    if (!number || !us)
        return;
    *GF_POOL_SLOT(stacks->us, number, stacks->room) += us;
    if (json_array_size(stacks->rows) < PAGE_ROWS)
        json_array_append_new(stacks->rows, json_pack("[I,I,I]", (json_int_t)rank,
                                                      (json_int_t)number - 1, (json_int_t)us));
}

/* Returns the stacks as JSON, and frees them. */
static json_t *stacks_json(struct stacks *stacks)
{
    json_t *list = json_array();

    for (uint32_t i = 1; i < stacks->texts.count; i++)
        json_array_append_new(list, json_string(gf_text_pool_get(&stacks->texts, i)));
    gf_text_pool_free(&stacks->texts);
    free(stacks->us);
    return json_pack("{s:o,s:o}", "stacks", list, "rows", stacks->rows);
}

GF_COMPARATOR(by_time, struct line, gf_order(other->us, one->us) ?: by_line(one, other))

json_t *gf_stall_stacks(const struct gf_job *job)
{
    struct stacks stacks = {.rows = json_array(), .texts.limit = PAGE_BYTES};
    size_t count, length;
    GF_OWNED struct line *lines = lines_of(job, GF_BY_COUNT, &count);
    uint64_t rest_us = 0; /* that of stacks for which the page has no space */

    qsort(lines, count, sizeof(*lines), by_time);
    for (size_t i = 0; i < count; i++) {
        GF_OWNED char *text = NULL;
        if (i + 1 >= PAGE_ROWS || stacks.texts.bytes > PAGE_BYTES) {
            rest_us += lines[i].us;
            continue;
        }
        FILE *out = gf_cli_memory(open_memstream(&text, &length));
        print_stack(out, job, &job->stacks[lines[i].stack]);
        print_frame(out, gf_tally_label(job, GF_BY_CAUSE, lines[i].cause));
        fclose(out);
        add_stack(&stacks, -1, gf_cli_memory(text), length, lines[i].us);
    }
    add_stack(&stacks, -1, "...", 3, rest_us);
    return stacks_json(&stacks);
}

static void add_path(struct stacks *stacks, int64_t rank, const json_t *row)
{
    const char *path = gf_report_text(row, "path", 512);
    char text[640];
    const uint64_t us = (uint64_t)(gf_min(gf_report_number(row, "s"), 1e9) * 1e6 + 0.5);

    if (!*path)
        return;
    int length = stacks->by_rank && rank >= 0 ? snprintf(text, sizeof(text), "rank %ld;", rank) : 0;
    length += snprintf(text + length, sizeof(text) - (size_t)length, "%s;%s", path,
                       gf_report_text(row, "cause", 32));
    add_stack(stacks, rank, text, (size_t)length, us);
}

static void add_paths(struct stacks *stacks, const struct gf_job *job)
{
    json_t *device, *row;
    size_t k, n;

    for (size_t i = 0; i < job->process_count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        if (!process->report || process->excluded)
            continue;
        json_array_foreach(gf_report_at(process->report, "gpu_time.devices"), k, device)
            json_array_foreach(json_object_get(device, "paths"), n, row)
                add_path(stacks, process->rank, row);
    }
}

bool gf_idle_folded_print(const struct gf_job *job, bool by_rank)
{
    struct stacks idle = {.by_rank = by_rank};
    bool found = false;

    add_paths(&idle, job);
    for (uint32_t i = 1; i < idle.room; i++)
        if (idle.us[i]) {
            printf("%s %lu\n", gf_text_pool_get(&idle.texts, i), idle.us[i]);
            found = true;
        }
    json_decref(stacks_json(&idle));
    return found;
}

json_t *gf_idle_stacks(const struct gf_job *job)
{
    struct stacks idle = {.rows = json_array(), .texts.limit = PAGE_BYTES};

    add_paths(&idle, job);
    return stacks_json(&idle);
}
