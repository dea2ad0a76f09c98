/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/answer/parts.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>

#define LABEL_COLUMNS 22

/* Returns the terminal's width; 100 columns for a file or a pipe. */
static unsigned screen_width(void)
{
    return isatty(STDOUT_FILENO) ? gf_wrap_width() : 100;
}

/*
 * Ends a row with the text of its last column. On a terminal on which it does not fit, the text is on
 * lines of its own, which break at blanks.
 */
static void end_row(int used, const char *text)
{
    const size_t width = (size_t)used + 2 + strlen(text);

    if (!*text || !isatty(STDOUT_FILENO) || width <= screen_width()) {
        printf("%s%s\n", *text ? "  " : "", text);
        return;
    }
    putchar('\n');
    gf_wrap("", text, 6, screen_width());
}

GF_COMPARATOR(by_need, struct gf_rank_row,
              gf_order(other->excess_s, one->excess_s)
                  ?: (gf_order(other->step_s, one->step_s) ?: gf_order(one->rank, other->rank)))

static void print_rank(const struct gf_answer *answer, const struct gf_rank_row *row)
{
    const struct gf_tally_row *tally = gf_tally_find(&answer->ranks, row->rank);
    const char *host = gf_job_text(answer->job, row->host);
    const char *label = gf_text(*host ? "%ld on %s" : "%ld%s", row->rank, host);
    const int used = printf(
        "  %-*s %8s %8s %8s %8s %9s", LABEL_COLUMNS, label,
        row->step_s > 0 ? gf_amount_time(row->step_s) : "-", gf_amount_time(row->stall_s),
        row->gpu_s > 0 ? gf_amount_share(row->gpu_empty_s, row->gpu_s) : "-",
        gf_amount_time(row->delay_s),
        gf_copy_rate(&row->to_device) > 0 ? gf_amount_rate(gf_copy_rate(&row->to_device)) : "-");
    end_row(used,
            tally && tally->main_us ? gf_tally_label(answer->job, GF_BY_SITE, tally->main) : "");
}

/*
 * Prints a row for each rank, at most `top`: ranks that differ first, then those with the longest
 * steps. Called after gf_rank_compare.
 */
static void gf_rank_text_print(const struct gf_answer *answer, unsigned top)
{
    const struct gf_rank_table *table = &answer->table;

    if (!table->count) {
        fputs("\nNo process has a rank.\n", stdout);
        return;
    }
    GF_OWNED struct gf_rank_row *rows = gf_cli_alloc(table->count, sizeof(*rows));
    memcpy(rows, table->rows, table->count * sizeof(*rows));
    qsort(rows, table->count, sizeof(*rows), by_need);
    printf("\n%-*s %8s %8s %8s %8s %9s  %s\n", LABEL_COLUMNS + 2, "Ranks", "step", "stalled",
           "GPU idle", "CPU wait", "copies", "stalled mostly at");
    for (size_t i = 0; i < table->count && i < top; i++)
        print_rank(answer, &rows[i]);
    if (table->count > top)
        printf("  and %zu more (--top N)\n", table->count - top);
    fputs("  step: median duration; GPU idle: share of its time without work; CPU wait: run-queue "
          "delay;\n  copies: rate to the GPU\n",
          stdout);
}

#define SITE_COLUMNS 38
#define CAUSE_COLUMNS 13
#define NUMBER_COLUMNS 46 /* width of a row's numbers, with the blanks between them */
#define LABEL_LEAST 20    /* on a narrow terminal, longer rows wrap */
#define DIFFERING_MAX 4
#define HELPS_MAX 4
#define SLOW_MOST 8          /* slow steps in a report */
#define STEP_OFF_S 1.5       /* a report's start is in whole seconds */
#define STEP_LONGER_S 0.0005 /* durations of the same step in log and report differ less */
#define GPU_COLUMNS 56
#define REASONS_MAX 1         /* reasons that are printed; the page and --json contain all */
#define LEAST_GPU_SHARE 0.005 /* smaller shares are not printed */

/* Whether the last column fits on the terminal. */
static bool has_last_column(void)
{
    return screen_width() >= 2 + SITE_COLUMNS + NUMBER_COLUMNS + CAUSE_COLUMNS;
}

static unsigned label_columns(enum gf_by by)
{
    if (by == GF_BY_CAUSE)
        return CAUSE_COLUMNS;
    if (has_last_column())
        return SITE_COLUMNS;
    return gf_max(screen_width(), NUMBER_COLUMNS + LABEL_LEAST) - NUMBER_COLUMNS;
}

static void print_lines(const char *title, const struct gf_lines *lines, size_t most)
{
    if (!lines->count)
        return;
    if (title)
        printf("\n%s\n", title);
    for (size_t i = 0; i < lines->count && i < most; i++)
        gf_wrap("", lines->list[i], title ? 2 : 0, screen_width());
    if (lines->count > most)
        printf("  and %zu more (--top N)\n", lines->count - most);
}

/* Prints a text of UTF-8, padded or cut to this many columns. */
static void print_label(const char *text, unsigned columns)
{
    unsigned used = 0;
    size_t length = 0;

    while (text[length] && used < columns) {
        length++;
        while (((unsigned char)text[length] & 0xc0) == 0x80)
            length++;
        used++;
    }
    printf("%.*s%*s", (int)length, text, (int)(columns - used), "");
}

static void print_row(const struct gf_answer *answer, const struct gf_tally *tally,
                      const struct gf_tally_row *row)
{
    const char *second = row->main_us ? gf_tally_label(answer->job, tally->second, row->main) : "";

    fputs("  ", stdout);
    print_label(gf_tally_label(answer->job, tally->by, row->key), label_columns(tally->by));
    printf("%9lu %8s %6s %8s %9s", row->count, gf_amount_time((double)row->us / 1e6),
           gf_amount_share((double)row->us, (double)answer->stall_us),
           row->longest_us ? gf_amount_time(row->longest_us / 1e6) : "-",
           gf_amount_clock(row->first, false));
    end_row((int)label_columns(tally->by) + NUMBER_COLUMNS,
            has_last_column() || tally->by == GF_BY_CAUSE ? second : "");
}

static void print_table(const struct gf_answer *answer, const struct gf_tally *tally, unsigned top)
{
    const char *title =
        gf_text("Stalls by %s", tally->by == GF_BY_SITE ? "call site" : gf_by_names[tally->by]);

    if (!tally->count)
        return;
    printf("\n%-*s%9s %8s %6s %8s %9s", (int)label_columns(tally->by) + 2, title, "count", "total",
           "share", "longest", "first at");
    if (has_last_column() || tally->by == GF_BY_CAUSE)
        printf("  %s", tally->second == GF_BY_SITE ? "mostly at" : "mostly");
    putchar('\n');
    for (size_t i = 0; i < tally->count && i < top; i++)
        print_row(answer, tally, &tally->rows[i]);
    if (tally->count > top)
        printf("  and %zu more (--top N)\n", tally->count - top);
}

/* The process's report has the same start and duration of the step. */
const char *gf_step_reason(const struct gf_job_process *process, const struct gf_step *step)
{
    json_t *slow;
    size_t i;

    json_array_foreach(gf_report_at(process->report, "step_times.slow"), i, slow) {
        if (i == SLOW_MOST)
            break;
        const double at = gf_report_number(process->report, "started") +
                          gf_report_number(slow, "at_s") - step->at;
        const double longer = gf_report_number(slow, "ms") / 1000 - step->s;
        if (at < -STEP_OFF_S || at > STEP_OFF_S || longer < -STEP_LONGER_S ||
            longer > STEP_LONGER_S)
            continue;
        const char *difference = gf_report_text(slow, "difference", 64);
        return strcmp(difference, "idle") == 0
                   ? gf_help_words(gf_help_host, gf_report_text(slow, "cause", 64))
                   : difference;
    }
    return "";
}

static void print_step(const struct gf_answer *answer, const struct gf_step *step)
{
    const struct gf_job_process *process = &answer->job->processes[step->process];
    const char *reason = gf_step_reason(process, step);
    const char *label = gf_text("step %lu%s%s", step->step, process->rank >= 0 ? ", " : " of ",
                                gf_job_process_name(process));
    const char *factor =
        answer->steps.median_s > 0 ? gf_text("%.1f times", step->s / answer->steps.median_s) : "-";

    fputs("  ", stdout);
    print_label(label, label_columns(GF_BY_STEP));
    const int used = printf("%9s %15s %9s %9s", gf_amount_time(step->s), factor,
                            step->stall_us ? gf_amount_time((double)step->stall_us / 1e6) : "-",
                            gf_amount_clock(step->at, false));
    end_row(used + 2 + (int)label_columns(GF_BY_STEP), reason);
}

static void print_steps(const struct gf_answer *answer, unsigned top)
{
    const struct gf_steps *steps = &answer->steps;

    if (!steps->slow)
        return;
    printf("\n%-*s%9s %15s %9s %9s\n", (int)label_columns(GF_BY_STEP) + 2, "Slow steps", "time",
           "of the median", "stalled", "at");
    for (size_t i = 0; i < steps->slow && i < top; i++)
        print_step(answer, &steps->list[i]);
    if (steps->slow > top)
        printf("  and %zu more (--top N)\n", steps->slow - top);
}

static void print_way(const struct gf_copy_sum *sum, const char *what, bool *first)
{
    if (sum->bytes <= 0)
        return;
    printf("%s%s %s", *first ? "" : ", ", gf_amount_bytes(sum->bytes), what);
    if (gf_copy_rate(sum) > 0)
        printf(" at %s", gf_amount_rate(gf_copy_rate(sum)));
    *first = false;
}

static const char *whole_job(const struct gf_answer *answer)
{
    return answer->job->since > 0 ? " of the whole job" : "";
}

static void print_copies(const struct gf_answer *answer)
{
    const struct gf_copies *copies = &answer->copies;
    static const char *const titles[] = {"to the GPU:  ", "from the GPU:"};

    bool examined = false;

    if (!copies->reports)
        return;
    printf("\nCopies%s\n", whole_job(answer));
    for (int i = 0; i < GF_DIRECTIONS; i++) {
        bool first = true;
        printf("  %s ", titles[i]);
        print_way(&copies->ways[i][GF_WAY_STAGED], "staged", &first);
        print_way(&copies->ways[i][GF_WAY_PINNED], "from or to pinned memory", &first);
        print_way(&copies->ways[i][GF_WAY_DRIVER], "by the driver", &first);
        if (first)
            fputs("no copy that was large enough for the library to examine", stdout);
        putchar('\n');
        examined |= !first;
        for (unsigned k = 0; k < copies->reason_count[i] && k < REASONS_MAX; k++) {
            printf("    by the driver (%s): %.0f (%s)\n",
                   gf_help_words(gf_help_reason, copies->reasons[i][k].name),
                   copies->reasons[i][k].sum.calls,
                   gf_amount_bytes(copies->reasons[i][k].sum.bytes));
        }
    }
    if (!examined && copies->small.calls > 0)
        printf("  smaller copies: %.0f (%s)\n", copies->small.calls,
               gf_amount_bytes(copies->small.bytes));
}

static void print_gpu_part(const struct gf_gpu_time *time, int indent, const char *words,
                           const struct gf_gpu_part *part)
{
    if (part->s / time->s >= LEAST_GPU_SHARE)
        end_row(printf("%*s%-*s %7s", indent, "", GPU_COLUMNS - indent, words,
                       gf_amount_share(part->s, time->s)),
                part->line);
}

/* Prints the share of the GPUs' time in each state, and below "empty" the share of each cause. */
static void print_gpu(const struct gf_answer *answer)
{
    const struct gf_gpu_time *time = &answer->gpu_time;

    if (!time->devices || time->s <= 0)
        return;
    printf("\nGPU time%s (%s of %s)\n", whole_job(answer), gf_amount_time(time->s),
           gf_amount_of(time->devices, "GPU"));
    for (unsigned i = 0; i < time->states.count; i++) {
        const struct gf_gpu_part *state = &time->states.list[i];
        print_gpu_part(time, 2, gf_help_words(gf_help_state, state->name), state);
        for (unsigned k = 0; k < time->causes.count && strcmp(state->name, "empty") == 0; k++)
            print_gpu_part(time, 4, gf_help_words(gf_help_host, time->causes.list[k].name),
                           &time->causes.list[k]);
    }
}

/* Prints the table that --by selects. */
static void print_by(const struct gf_answer *answer, unsigned top, enum gf_by by)
{
    struct gf_tally tally = {0};

    if (by == GF_BY_RANK) {
        gf_rank_text_print(answer, top);
        return;
    }
    if (by == GF_BY_CAUSE) { /* answer->causes also has stalls of processes without a log */
        print_table(answer, &answer->causes, top);
    } else {
        tally = gf_tally(answer->job, by, GF_BY_CAUSE);
        print_table(answer, &tally, top);
    }
    if (by != GF_BY_CAUSE && answer->processes && !gf_job_has_log(answer->job))
        printf("\nOnly a log (GPUFEED_LOG) has the %s of a stall; a report has sums.\n",
               gf_by_names[by]);
    else if (by == GF_BY_CAUSE ? !answer->causes.count : !tally.count)
        printf(answer->stalls ? "\nNo stall has a %s.\n" : "\nNo call stalled.\n", gf_by_names[by]);
    if (by == GF_BY_STEP)
        print_steps(answer, top);
    free(tally.rows);
}

void gf_answer_print(const struct gf_answer *answer, unsigned top, enum gf_by by)
{
    if (by == GF_BY_COUNT)
        print_lines(NULL, &answer->verdict, answer->verdict.count);
    if (answer->processes)
        gf_wrap("", gf_verdict_scope(answer), 0, screen_width());
    if (by == GF_BY_COUNT) {
        print_gpu(answer);
        print_table(answer, &answer->causes, top);
        print_table(answer, &answer->sites, top);
        print_steps(answer, top);
        print_copies(answer);
        if (answer->differing.count > 1) /* the verdict names the first rank */
            print_lines("Ranks that differ", &answer->differing, gf_max(top, DIFFERING_MAX));
        print_lines("What helps", &answer->helps, gf_max(top, HELPS_MAX));
    } else {
        print_by(answer, top, by);
    }
    print_lines("Notes", &answer->notes, answer->notes.count);
}
