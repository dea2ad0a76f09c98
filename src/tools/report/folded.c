/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/cli.h"
#include "tools/job/process_report.h"
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

static void print_line(FILE *out, const struct gf_job *job, const struct line *line, enum gf_by by)
{
    const struct gf_job_stack *stack = &job->stacks[line->stack];
    char label[1024];

    if (by != GF_BY_COUNT) {
        print_frame(out, gf_tally_label(job, by, line->key, label, sizeof(label)));
        fputc(';', out);
    }
    for (uint32_t i = 0; i < stack->count; i++) {
        print_frame(out, gf_job_text(job, job->frames[stack->frame + i]));
        fputc(';', out);
    }
    print_frame(out, gf_job_text(job, line->call));
    fputs(" (", out);
    print_frame(out, gf_job_text(job, line->cause));
    fprintf(out, ") %lu\n", line->us);
}

void gf_folded_print(FILE *out, const struct gf_job *job, enum gf_by by)
{
    struct line *lines = gf_cli_alloc(job->stall_count, sizeof(*lines));
    size_t count = 0;

    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        lines[i] = (struct line){by == GF_BY_COUNT ? 0 : gf_tally_key(job, stall, by), stall->stack,
                                 stall->call, stall->cause, stall->us};
    }
    qsort(lines, job->stall_count, sizeof(*lines), by_line);
    for (size_t i = 0; i < job->stall_count; i++) {
        if (count && by_line(&lines[count - 1], &lines[i]) == 0)
            lines[count - 1].us += lines[i].us;
        else
            lines[count++] = lines[i];
    }
    for (size_t i = 0; i < count; i++)
        if (lines[i].us)
            print_line(out, job, &lines[i], by);
    free(lines);
}

#define LEAST_PART 1000
#define TREE_BYTES ((size_t)4 << 20) /* of the page's tree, in which names may be repeated */
#define NODE_BYTES 32                /* without its name */
#define NONE UINT32_MAX

/*
 * A frame that was reached through a particular chain of callers. `child` is a frame that it
 * called, and `sibling` is another frame that its caller called.
 */
struct node {
    uint32_t name, child, sibling;
    uint64_t us;
};

struct tree {
    const struct gf_job *job;
    struct node *nodes;       /* the first one is the root */
    struct gf_text_pool keys; /* caller and name; the number of a key is that of its node */
    size_t count;
    uint64_t least_us; /* nodes with less time are not in the page */
};

static uint32_t child_of(struct tree *tree, uint32_t parent, uint32_t name)
{
    const uint32_t key[] = {parent, name};
    bool is_new;
    const uint32_t number = gf_text_pool_add(&tree->keys, (const char *)key, sizeof(key), &is_new);

    if (is_new) {
        const uint32_t sibling = tree->nodes[parent].child;
        *GF_JOB_ADD(tree->nodes, tree->count) =
            (struct node){.name = name, .child = NONE, .sibling = sibling};
        tree->nodes[parent].child = number;
    }
    return number;
}

static void add_stall(struct tree *tree, const struct gf_stall *stall)
{
    const struct gf_job_stack *stack = &tree->job->stacks[stall->stack];
    uint32_t at = 0;

    tree->nodes[0].us += stall->us;
    for (uint32_t i = 0; i <= stack->count; i++) {
        at = child_of(tree, at,
                      i < stack->count ? tree->job->frames[stack->frame + i] : stall->cause);
        tree->nodes[at].us += stall->us;
    }
}

static size_t measure(const struct tree *tree)
{
    size_t bytes = 0;

    for (size_t i = 1; i < tree->count; i++)
        if (tree->nodes[i].us >= tree->least_us)
            bytes += NODE_BYTES + strlen(gf_job_text(tree->job, tree->nodes[i].name));
    return bytes;
}

static json_t *json_of(const struct tree *tree, uint32_t at)
{
    const struct node *node = &tree->nodes[at];
    json_t *children = json_array();
    const char *name = at ? gf_job_text(tree->job, node->name) : "all stalls";

    for (uint32_t i = node->child; i != NONE; i = tree->nodes[i].sibling)
        if (tree->nodes[i].us >= tree->least_us)
            json_array_append_new(children, json_of(tree, i));
    return json_pack("{s:s,s:I,s:o}", "name", *name ? name : "unknown", "us", (json_int_t)node->us,
                     "children", children);
}

json_t *gf_stack_tree(const struct gf_job *job)
{
    struct tree tree = {.job = job};

    *GF_JOB_ADD(tree.nodes, tree.count) = (struct node){.child = NONE, .sibling = NONE};
    for (size_t i = 0; i < job->stall_count; i++)
        add_stall(&tree, &job->stalls[i]);
    tree.least_us = gf_max(tree.nodes[0].us / LEAST_PART, (uint64_t)1);
    while (measure(&tree) > TREE_BYTES)
        tree.least_us *= 2;
    json_t *json = json_of(&tree, 0);
    free(tree.nodes);
    gf_text_pool_free(&tree.keys);
    return json;
}

#define PAGE_ROWS 50000u
#define PAGE_BYTES (1u << 20)

/* Time without work of all reports, by path and cause. */
struct idle {
    bool by_rank;
    struct gf_text_pool stacks;
    uint64_t *us; /* of each stack */
    size_t room;
    json_t *rows; /* NULL: not wanted */
};

static void add_path(struct idle *idle, int64_t rank, const json_t *row)
{
    char path[512], cause[32], stack[640];
    const uint64_t us = (uint64_t)(gf_min(gf_report_number(row, "s"), 1e9) * 1e6 + 0.5);
    bool is_new;

    int length = idle->by_rank && rank >= 0 ? snprintf(stack, sizeof(stack), "rank %ld;", rank) : 0;
    length += snprintf(stack + length, sizeof(stack) - (size_t)length, "%s;%s",
                       gf_report_text(row, "path", path, sizeof(path)),
                       gf_report_text(row, "cause", cause, sizeof(cause)));
    const uint32_t number = gf_text_pool_add(&idle->stacks, stack, (size_t)length, &is_new);
    uint64_t *sum = us && *path && number ? GF_POOL_SLOT(idle->us, number, idle->room) : NULL;
    if (!sum)
        return;
    *sum += us;
    if (json_array_size(idle->rows) < PAGE_ROWS)
        json_array_append_new(idle->rows, json_pack("[I,I,I]", (json_int_t)rank,
                                                    (json_int_t)number - 1, (json_int_t)us));
}

static void add_paths(struct idle *idle, const struct gf_job *job)
{
    json_t *device, *row;
    size_t k, n;

    for (size_t i = 0; i < job->process_count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        if (!process->report || process->excluded)
            continue;
        json_array_foreach(gf_report_at(process->report, "gpu_time.devices"), k, device)
            json_array_foreach(json_object_get(device, "paths"), n, row)
                add_path(idle, process->rank, row);
    }
}

static void free_idle(struct idle *idle)
{
    gf_text_pool_free(&idle->stacks);
    free(idle->us);
}

bool gf_idle_folded_print(FILE *out, const struct gf_job *job, bool by_rank)
{
    struct idle idle = {.by_rank = by_rank};
    bool found = false;

    add_paths(&idle, job);
    for (uint32_t i = 1; i < idle.room; i++)
        if (idle.us[i]) {
            fprintf(out, "%s %lu\n", gf_text_pool_get(&idle.stacks, i), idle.us[i]);
            found = true;
        }
    free_idle(&idle);
    return found;
}

json_t *gf_idle_stacks(const struct gf_job *job)
{
    struct idle idle = {.rows = json_array(), .stacks.limit = PAGE_BYTES};
    json_t *stacks = json_array();

    add_paths(&idle, job);
    for (uint32_t i = 1; i < idle.stacks.count; i++)
        json_array_append_new(stacks, json_string(gf_text_pool_get(&idle.stacks, i)));
    free_idle(&idle);
    return json_pack("{s:o,s:o}", "stacks", stacks, "rows", idle.rows);
}
