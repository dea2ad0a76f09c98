/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_tables.h"

#include "tools/common/cli.h"
#include "tools/job/job_input.h"

#include <stdlib.h>

GF_COMPARATOR(by_rank, struct gf_rank_row, gf_order(one->rank, other->rank))

static void sort_rows(struct gf_rank_table *table)
{
    size_t kept = 0;

    qsort(table->rows, table->count, sizeof(*table->rows), by_rank);
    for (size_t i = 0; i < table->count; i++)
        if (!kept || table->rows[kept - 1].rank != table->rows[i].rank)
            table->rows[kept++] = table->rows[i];
    table->count = kept;
}

static struct gf_rank_row *rank_row_of(const struct gf_rank_table *table, const struct gf_job *job,
                                       size_t process)
{
    const struct gf_rank_row key = {.rank = job->processes[process].rank};
    return bsearch(&key, table->rows, table->count, sizeof(*table->rows), by_rank);
}

static void add_process(struct gf_rank_row *row, const struct gf_job_process *process)
{
    struct gf_copies copies = {0};
    struct gf_gpu_time gpu = {0};

    if (process->host)
        row->host = process->host;
    row->first = row->processes ? gf_min(row->first, process->first) : process->first;
    row->last = gf_max(row->last, process->last);
    row->processes++;
    row->delay_s += (double)process->delay_ms / 1000;
    if (!process->report)
        return;
    gf_gpu_time_add(&gpu, process->report, row->rank);
    row->gpu_s += gpu.s;
    row->gpu_empty_s += gpu.s * gf_gpu_share(&gpu, &gpu.states, "empty");
    row->gpu_copying_s += gpu.s * gf_gpu_share(&gpu, &gpu.states, "copying");
    gf_copies_add(&copies, process->report);
    for (int way = 0; way < GF_WAYS; way++) {
        const struct gf_copy_sum *sum = &copies.ways[GF_TO_DEVICE][way];
        if (way == GF_WAY_OTHER || sum->duration_s <= 0)
            continue;
        gf_copy_sum_add(&row->to_device, sum);
        if (way != GF_WAY_DRIVER)
            gf_copy_sum_add(&row->of_pinned, sum);
    }
    if (!process->logged) { /* a report has the sum of the steps' durations, but not their median */
        const double ended = gf_report_number(process->report, "steps.ended");
        row->step_s = ended > 0 ? gf_report_number(process->report, "steps.us") / 1e6 / ended : 0;
        row->step_mean_s = row->step_s;
        row->steps += (size_t)ended;
        row->stall_s += gf_report_number(process->report, "stalls.us") / 1e6;
        row->step_stall_s += gf_report_number(process->report, "stalls.us") / 1e6;
        row->stalls += (uint64_t)gf_report_number(process->report, "stalls.count");
    }
}

static void find_step_times(const struct gf_rank_table *table, const struct gf_job *job,
                            const struct gf_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        const struct gf_step *step = &steps->list[i];
        struct gf_rank_row *row = rank_row_of(table, job, step->process);
        if (!row)
            continue;
        if (row->first_step <= 0 || step->at < row->first_step)
            row->first_step = step->at;
        row->last_step = gf_max(row->last_step, step->is_open ? row->last : step->at + step->s);
    }
}

static void add_stalls(const struct gf_rank_table *table, const struct gf_job *job)
{
    for (size_t i = 0; i < job->stall_count; i++) {
        const struct gf_stall *stall = &job->stalls[i];
        struct gf_rank_row *row = rank_row_of(table, job, stall->process);
        if (!row)
            continue;
        row->stall_s += stall->us / 1e6;
        row->stalls++;
        if (row->first_step <= 0 || (stall->at >= row->first_step && stall->at <= row->last_step))
            row->step_stall_s += stall->us / 1e6;
    }
}

/* Counts the ended steps of each rank. */
static size_t *count_steps(const struct gf_rank_table *table, const struct gf_job *job,
                           const struct gf_steps *steps)
{
    size_t *counts = gf_cli_alloc(table->count, sizeof(*counts));

    for (size_t i = 0; i < steps->ended; i++) {
        const struct gf_rank_row *row = rank_row_of(table, job, steps->list[i].process);
        if (row)
            counts[row - table->rows]++;
    }
    return counts;
}

/*
 * Sets the median and the mean of each rank's steps. The list of steps is sorted, the longest
 * first, so a rank's median is the middle one of its steps in the list.
 */
static void add_steps(const struct gf_rank_table *table, const struct gf_job *job,
                      const struct gf_steps *steps)
{
    GF_OWNED size_t *counts = count_steps(table, job, steps);
    GF_OWNED size_t *passed = gf_cli_alloc(table->count, sizeof(*passed));

    for (size_t i = 0; i < steps->ended; i++) {
        struct gf_rank_row *row = rank_row_of(table, job, steps->list[i].process);
        if (!row)
            continue;
        const size_t at = (size_t)(row - table->rows), longest = counts[at] / 10;
        if (passed[at] == counts[at] / 2)
            row->step_s = steps->list[i].s;
        if (!passed[at]) {
            row->steps += counts[at];
            row->step_mean_s = 0;
        }
        if (passed[at]++ >= longest)
            row->step_mean_s += steps->list[i].s / (double)(counts[at] - longest);
    }
}

/* With --since, the logs' intervals replace the sums of reports, as they do for ranks without a report. */
static void use_activity(const struct gf_rank_table *table, const struct gf_job *job)
{
    GF_OWNED struct gf_logged_gpu *sums = gf_cli_alloc(table->count, sizeof(*sums));

    for (size_t i = 0; i < job->activity_count; i++) {
        const struct gf_rank_row *row = rank_row_of(table, job, job->activity[i].process);
        if (row)
            gf_logged_gpu_add(&sums[row - table->rows], job, &job->activity[i]);
    }
    for (size_t i = 0; i < table->count; i++) {
        if (sums[i].s <= 0 || (job->since <= 0 && table->rows[i].gpu_s > 0))
            continue;
        table->rows[i].gpu_is_recent = true;
        table->rows[i].gpu_s = sums[i].s;
        table->rows[i].gpu_empty_s = sums[i].empty_s;
        table->rows[i].gpu_copying_s = sums[i].copying_s;
    }
}

/* Whether the steps of all ranks were found in the same way, so that they are comparable. */
static bool is_comparable(const struct gf_reported_list *reported)
{
    for (size_t i = 1; i < reported->count; i++)
        if (strcmp(reported->list[i].source, reported->list[0].source) != 0)
            return false;
    return true;
}

/* A rank without marks has the median of the steps that were detected. */
static void use_reported(const struct gf_rank_table *table, const struct gf_job *job,
                         const struct gf_reported_list *reported)
{
    for (size_t i = 0; is_comparable(reported) && i < reported->count; i++) {
        const struct gf_reported_steps *one = &reported->list[i];
        struct gf_rank_row *row = rank_row_of(table, job, one->process);
        if (!row || row->step_s > 0)
            continue;
        row->step_s = row->step_mean_s = one->p50_s;
        row->steps = (size_t)gf_min(one->steps, 1e15);
    }
}

struct gf_rank_table gf_rank_table_make(const struct gf_job *job, const struct gf_steps *steps,
                                        const struct gf_reported_list *reported)
{
    struct gf_rank_table table = {.rows = gf_cli_alloc(job->process_count, sizeof(*table.rows)),
                                  .next = gf_cli_alloc(job->process_count, sizeof(*table.next))};

    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].rank >= 0 && !job->processes[i].excluded)
            table.rows[table.count++].rank = job->processes[i].rank;
    sort_rows(&table);
    for (size_t i = 0; i < table.count; i++)
        table.rows[i] = (struct gf_rank_row){.rank = table.rows[i].rank};
    for (size_t i = job->process_count; i-- > 0;) {
        struct gf_rank_row *row = job->processes[i].excluded ? NULL : rank_row_of(&table, job, i);
        if (!row)
            continue;
        table.next[i] = row->process;
        row->process = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < table.count; i++)
        for (uint32_t k = table.rows[i].process; k; k = table.next[k - 1])
            add_process(&table.rows[i], &job->processes[k - 1]);
    use_activity(&table, job);
    find_step_times(&table, job, steps);
    add_stalls(&table, job);
    add_steps(&table, job, steps);
    use_reported(&table, job, reported);
    return table;
}
