/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/rank_table.h"

#include "cli/report/input/report_file.h"
#include "cli/report/output/amount.h"

#include <stdio.h>
#include <stdlib.h>

/* Differences below this share of the run, or below this many seconds, are ignored. */
#define LEAST_SHARE 0.01
#define LEAST_S 0.1
#define FACTOR 2

static int by_rank(const void *a, const void *b)
{
    const struct gf_rank_row *one = a, *other = b;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static void sort_rows(struct gf_rank_table *table)
{
    size_t kept = 0;

    if (table->count)
        qsort(table->rows, table->count, sizeof(*table->rows), by_rank);
    for (size_t i = 0; i < table->count; i++)
        if (!kept || table->rows[kept - 1].rank != table->rows[i].rank)
            table->rows[kept++] = table->rows[i];
    table->count = kept;
}

static struct gf_rank_row *row_of(const struct gf_rank_table *table, int64_t rank)
{
    const struct gf_rank_row key = {.rank = rank};
    return table->count ? bsearch(&key, table->rows, table->count, sizeof(*table->rows), by_rank)
                        : NULL;
}

static void add_process(struct gf_rank_row *row, const struct gf_job_process *process)
{
    struct gf_copies copies = {0};

    if (process->host)
        row->host = process->host;
    row->first = row->processes ? gf_min(row->first, process->first) : process->first;
    row->last = gf_max(row->last, process->last);
    row->processes++;
    row->delay_s += (double)process->delay_ms / 1000;
    if (!process->report)
        return;
    gf_copies_add(&copies, process->report);
    for (int way = 0; way < GF_WAYS; way++) {
        const struct gf_copy_sum *sum = &copies.ways[GF_TO_DEVICE][way];
        if (way == GF_WAY_OTHER || sum->duration_s <= 0)
            continue;
        row->to_device.calls += sum->calls;
        row->to_device.bytes += sum->bytes;
        row->to_device.duration_s += sum->duration_s;
    }
    if (!process->logged) {
        row->stall_s += gf_report_number(process->report, "stalls.us") / 1e6;
        row->stalls += (uint64_t)gf_report_number(process->report, "stalls.count");
    }
}

struct gf_rank_table gf_rank_table_make(const struct gf_job *job)
{
    struct gf_rank_table table = {.rows = calloc(job->process_count + 1, sizeof(*table.rows))};

    for (size_t i = 0; table.rows && i < job->process_count; i++)
        if (job->processes[i].rank >= 0 && !job->processes[i].excluded)
            table.rows[table.count++].rank = job->processes[i].rank;
    sort_rows(&table);
    for (size_t i = 0; i < table.count; i++)
        table.rows[i] = (struct gf_rank_row){.rank = table.rows[i].rank};
    for (size_t i = 0; i < job->process_count; i++) {
        struct gf_rank_row *row =
            job->processes[i].excluded ? NULL : row_of(&table, job->processes[i].rank);
        if (row)
            add_process(row, &job->processes[i]);
    }
    for (size_t i = 0; i < job->stall_count; i++) {
        struct gf_rank_row *row = row_of(&table, job->processes[job->stalls[i].process].rank);
        if (!row)
            continue;
        row->stall_s += job->stalls[i].us / 1e6;
        row->stalls++;
    }
    return table;
}

static double stalled(const struct gf_rank_row *row)
{
    return row->stall_s;
}

static double delayed(const struct gf_rank_row *row)
{
    return row->delay_s;
}

/* Seconds per GB, so that a higher value is worse, as for other values. 0 if no copy was timed. */
static double copy_cost(const struct gf_rank_row *row)
{
    const double rate = gf_copy_rate(&row->to_device);
    return rate > 0 ? 1 / rate : 0;
}

static double end_of(const struct gf_rank_row *row)
{
    return row->last;
}

static int by_value(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return one < other ? -1 : one > other;
}

/* The lower median, so that one of two ranks can differ from it. */
static double median(const struct gf_rank_table *table, double (*value)(const struct gf_rank_row *))
{
    double *values = calloc(table->count, sizeof(*values)), middle = 0;

    for (size_t i = 0; values && i < table->count; i++)
        values[i] = value(&table->rows[i]);
    if (values) {
        qsort(values, table->count, sizeof(*values), by_value);
        middle = values[(table->count - 1) / 2];
    }
    free(values);
    return middle;
}

static double span_of(const struct gf_rank_table *table)
{
    double first = table->rows[0].first, last = 0;

    for (size_t i = 0; i < table->count; i++) {
        first = gf_min(first, table->rows[i].first);
        last = gf_max(last, table->rows[i].last);
    }
    return last - first;
}

static const char *name_of(const struct gf_rank_row *row, const struct gf_job *job, char *buf,
                           size_t size)
{
    const char *host = gf_job_text(job, row->host);

    snprintf(buf, size, *host ? "rank %lld on %s" : "rank %lld", (long long)row->rank, host);
    return buf;
}

static void compare_times(const struct gf_rank_table *table, const struct gf_job *job,
                          double (*value)(const struct gf_rank_row *), const char *what,
                          struct gf_lines *ret)
{
    const double usual = median(table, value);
    const double least = gf_max(LEAST_S, LEAST_SHARE * span_of(table));
    char name[160], much[GF_AMOUNT], little[GF_AMOUNT];

    for (size_t i = 0; i < table->count; i++) {
        const struct gf_rank_row *row = &table->rows[i];
        if (value(row) > FACTOR * usual && value(row) - usual > least)
            gf_lines_add(ret, "%s %s %s; the median of all ranks is %s",
                         name_of(row, job, name, sizeof(name)), what,
                         gf_amount_time(value(row), much), gf_amount_time(usual, little));
    }
}

static void compare_copies(const struct gf_rank_table *table, const struct gf_job *job,
                           struct gf_lines *ret)
{
    const double usual = median(table, copy_cost);
    char name[160];

    for (size_t i = 0; i < table->count && usual > 0; i++) {
        const struct gf_rank_row *row = &table->rows[i];
        if (copy_cost(row) > FACTOR * usual && row->to_device.duration_s > LEAST_S)
            gf_lines_add(ret,
                         "%s copies to the GPU at %.1f GB/s; the median of all ranks is %.1f GB/s",
                         name_of(row, job, name, sizeof(name)), 1 / copy_cost(row), 1 / usual);
    }
}

static void compare_ends(const struct gf_rank_table *table, const struct gf_job *job,
                         struct gf_lines *ret)
{
    const double usual = median(table, end_of), span = span_of(table);
    char name[160], much[GF_AMOUNT];

    for (size_t i = 0; i < table->count; i++) {
        const struct gf_rank_row *row = &table->rows[i];
        if (usual - row->last > gf_max(5, span / 20))
            gf_lines_add(ret, "%s wrote its last line %s before the other ranks",
                         name_of(row, job, name, sizeof(name)),
                         gf_amount_time(usual - row->last, much));
    }
}

void gf_rank_table_compare(const struct gf_rank_table *table, const struct gf_job *job,
                           struct gf_lines *ret)
{
    if (table->count < 2)
        return;
    compare_times(table, job, stalled, "was stalled for", ret);
    compare_times(table, job, delayed, "waited for a CPU for", ret);
    compare_copies(table, job, ret);
    compare_ends(table, job, ret);
}

void gf_rank_table_free(struct gf_rank_table *table)
{
    free(table->rows);
    *table = (struct gf_rank_table){0};
}
