/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/rank_text.h"

#include "cli/report/output/amount.h"

#include <stdlib.h>

#define LABEL_COLUMNS 22

static int by_need(const void *a, const void *b)
{
    const struct gf_rank_row *one = a, *other = b;

    if (one->excess_s < other->excess_s || one->excess_s > other->excess_s)
        return one->excess_s > other->excess_s ? -1 : 1;
    if (one->step_s < other->step_s || one->step_s > other->step_s)
        return one->step_s > other->step_s ? -1 : 1;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static void print_row(FILE *out, const struct gf_answer *answer, const struct gf_rank_row *row)
{
    const struct gf_tally_row *tally = gf_tally_find(&answer->ranks, row->rank);
    const char *host = gf_job_text(answer->job, row->host);
    char label[256], step[GF_AMOUNT], time[GF_AMOUNT], share[GF_AMOUNT], delay[GF_AMOUNT],
        rate[GF_AMOUNT], site[512];

    snprintf(label, sizeof(label), *host ? "%lld on %s" : "%lld%s", (long long)row->rank, host);
    fprintf(out, "  %-*s %8s %8s %8s %8s %9s", LABEL_COLUMNS, label,
            row->step_s > 0 ? gf_amount_time(row->step_s, step) : "-",
            gf_amount_time(row->stall_s, time),
            row->gpu_s > 0 ? gf_amount_share(row->gpu_empty_s, row->gpu_s, share) : "-",
            gf_amount_time(row->delay_s, delay),
            gf_copy_rate(&row->to_device) > 0 ? gf_amount_rate(gf_copy_rate(&row->to_device), rate)
                                              : "-");
    if (tally && tally->main_us)
        fprintf(out, "  %s",
                gf_tally_label(answer->job, GF_BY_SITE, tally->main, site, sizeof(site)));
    fputc('\n', out);
}

void gf_rank_text_print(FILE *out, const struct gf_answer *answer, unsigned top)
{
    const struct gf_rank_table *table = &answer->table;
    struct gf_rank_row *rows = calloc(table->count + 1, sizeof(*rows));

    if (!table->count)
        fputs("\nNo process has a rank.\n", out);
    for (size_t i = 0; rows && i < table->count; i++)
        rows[i] = table->rows[i];
    if (!rows || !table->count) {
        free(rows);
        return;
    }
    qsort(rows, table->count, sizeof(*rows), by_need);
    fprintf(out, "\n%-*s %8s %8s %8s %8s %9s  %s\n", LABEL_COLUMNS + 2, "Ranks", "step", "stalled",
            "GPU idle", "CPU wait", "copies", "stalled mostly at");
    for (size_t i = 0; i < table->count && i < top; i++)
        print_row(out, answer, &rows[i]);
    if (table->count > top)
        fprintf(out, "  and %zu more (--top N)\n", table->count - top);
    fputs("  step: median duration; GPU idle: share of its time without work; CPU wait: run-queue "
          "delay;\n  copies: rate to the GPU\n",
          out);
    free(rows);
}
