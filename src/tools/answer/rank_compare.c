/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"

#include <stdlib.h>

/* A difference in time is ignored if it is below this share of the run, or below LEAST_S. */
#define LEAST_SHARE 0.01
#define LEAST_S 0.2
#define FACTOR 2
/*
 * The factor for durations of steps. It is smaller than FACTOR, because medians of steps vary less
 * than sums of stalls.
 */
#define STEP_FACTOR 1.2
#define GPU_SHARE 0.1 /* a smaller difference of the GPU's time without work is ignored */
#define TEXT 640

typedef double value_of(const struct gf_rank_row *row);

/* The medians of all ranks, and the least difference in seconds that is not ignored. */
struct usual {
    double stall_s, delay_s, step_s, step_mean_s, gpu_empty, gpu_copying, copy_cost, link_cost,
        last;
    double least_s, span;
};

/* Defines the function that returns this value of a rank. */
#define VALUE(name, value)                                                                         \
    static double name(const struct gf_rank_row *row)                                              \
    {                                                                                              \
        return value;                                                                              \
    }
VALUE(stalled, row->step_stall_s)
VALUE(delayed, row->delay_s)
VALUE(step_of, row->step_s)
VALUE(step_mean_of, row->step_mean_s)
VALUE(gpu_empty, row->gpu_s > 0 ? row->gpu_empty_s / row->gpu_s : 0)
VALUE(gpu_copying, row->gpu_s > 0 ? row->gpu_copying_s / row->gpu_s : 0)

/*
 * Returns seconds per GB; 0 if no copy was timed. Of each value that is compared, a higher one is
 * worse, so this is no rate.
 */
static double cost_of(const struct gf_copy_sum *sum)
{
    const double rate = gf_copy_rate(sum);
    return rate > 0 ? 1 / rate : 0;
}

VALUE(copy_cost, cost_of(&row->to_device))
VALUE(link_cost, cost_of(&row->of_pinned))
VALUE(end_of, row->last)

/* Returns the lower median, so that one of two ranks can differ from the median. */
static double median(const struct gf_rank_table *table, value_of *value)
{
    GF_OWNED double *values = gf_cli_alloc(table->count, sizeof(*values));

    for (size_t i = 0; i < table->count; i++)
        values[i] = value(&table->rows[i]);
    qsort(values, table->count, sizeof(*values), gf_by_double);
    return values[(table->count - 1) / 2];
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

static struct usual usual_of(const struct gf_rank_table *table)
{
    const double span = span_of(table);

    return (struct usual){
        .stall_s = median(table, stalled),
        .delay_s = median(table, delayed),
        .step_s = median(table, step_of),
        .step_mean_s = median(table, step_mean_of),
        .gpu_empty = median(table, gpu_empty),
        .gpu_copying = median(table, gpu_copying),
        .copy_cost = median(table, copy_cost),
        .link_cost = median(table, link_cost),
        .last = median(table, end_of),
        .least_s = gf_max(LEAST_S, LEAST_SHARE * span),
        .span = span,
    };
}

static const char *comma(const struct gf_textbuf *words)
{
    return words->at ? ", " : "";
}

/* Precedes a figure of the whole job in an answer with --since. */
static const char *whole_job(const struct gf_answer *answer)
{
    return answer->job->since > 0 ? "in the whole job " : "";
}

static void compare_stalls(const struct gf_answer *answer, const struct usual *usual,
                           struct gf_rank_row *row, struct gf_textbuf *words)
{
    const struct gf_tally_row *tally = gf_tally_find(&answer->ranks, row->rank);
    const double excess = row->step_stall_s - usual->stall_s;
    if (row->step_stall_s <= FACTOR * usual->stall_s || excess <= usual->least_s)
        return;
    row->excess_s += excess;
    gf_say(words, "%swas stalled for %s%s (median %s", comma(words),
           gf_amount_time(row->step_stall_s), row->first_step > 0 ? " in its steps" : "",
           gf_amount_time(usual->stall_s));
    if (tally && *gf_job_text(answer->job, (uint32_t)tally->main))
        gf_say(words, "; mostly at %.255s", gf_tally_label(answer->job, GF_BY_SITE, tally->main));
    gf_say(words, ")");
}

static void compare_delays(const struct gf_answer *answer, const struct usual *usual,
                           struct gf_rank_row *row, struct gf_textbuf *words)
{
    if (row->delay_s <= FACTOR * usual->delay_s || row->delay_s - usual->delay_s <= usual->least_s)
        return;
    row->excess_s += row->delay_s - usual->delay_s;
    gf_say(words, "%s%swaited for a CPU for %s (median %s)", comma(words), whole_job(answer),
           gf_amount_time(row->delay_s), gf_amount_time(usual->delay_s));
}

/*
 * A rank is slower only if both median and mean of its steps are larger. If all ranks become slower
 * during the job, their medians alone may differ by chance.
 */
static void compare_steps(const struct usual *usual, struct gf_rank_row *row,
                          struct gf_textbuf *words)
{
    const double excess = (row->step_mean_s - usual->step_mean_s) * (double)row->steps;

    if (usual->step_s <= 0 || row->step_s <= STEP_FACTOR * usual->step_s ||
        row->step_mean_s <= STEP_FACTOR * usual->step_mean_s || excess <= usual->least_s)
        return;
    row->excess_s += excess;
    gf_say(words, "%stook %s per step (median %s)", comma(words), gf_amount_time(row->step_s),
           gf_amount_time(usual->step_s));
}

/*
 * Adds to the sentence the cause whose share of this rank's GPU time exceeds its share in the whole
 * job by the most.
 */
static void say_gpu_cause(const struct gf_answer *answer, const struct gf_rank_row *row,
                          struct gf_textbuf *words)
{
    struct gf_gpu_time time = {0};
    const struct gf_gpu_part *most = NULL;
    double more = 0;

    for (uint32_t i = row->process; i; i = answer->table.next[i - 1])
        gf_gpu_time_add(&time, answer->job->processes[i - 1].report, row->rank);
    for (unsigned i = 0; i < time.causes.count; i++) {
        const struct gf_gpu_part *part = &time.causes.list[i];
        const double excess = part->s / time.s -
                              gf_gpu_share(&answer->gpu_time, &answer->gpu_time.causes, part->name);
        if (excess > more) {
            more = excess;
            most = part;
        }
    }
    if (!most)
        return;
    gf_say(words, "; %smostly %s %s", whole_job(answer), gf_help_words(gf_help_host, most->name),
           gf_amount_share(most->s, time.s));
    if (*most->line)
        gf_say(words, " at %s", most->line);
}

/* Says the share of the time in which the GPU was in a state, if it exceeds the usual share. */
static bool compare_share(const struct gf_answer *answer, const struct usual *usual,
                          struct gf_rank_row *row, double share, double usual_share,
                          const char *state, struct gf_textbuf *words)
{
    const double more = share - usual_share;

    if (more <= GPU_SHARE || more * row->gpu_s <= usual->least_s)
        return false;
    row->excess_s += more * row->gpu_s;
    gf_say(words, "%s%s%s %s of the time (median %s", comma(words),
           row->gpu_is_recent ? "" : whole_job(answer), state, gf_amount_share(share, 1),
           gf_amount_share(usual_share, 1));
    return true;
}

static void compare_copies(const struct gf_answer *answer, const struct usual *usual,
                           struct gf_rank_row *row, struct gf_textbuf *words)
{
    const double cost = copy_cost(row), seconds = row->to_device.duration_s;

    if (usual->copy_cost <= 0 || cost <= FACTOR * usual->copy_cost || seconds <= LEAST_S)
        return;
    row->excess_s += seconds * (1 - usual->copy_cost / cost);
    gf_say(words, "%s%scopied to the GPU at %s (median %s)", comma(words), whole_job(answer),
           gf_amount_rate(1 / cost), gf_amount_rate(1 / usual->copy_cost));
}

/*
 * Adds a remedy for a rank whose pinned and staged copies are slow. Copies of pageable memory by
 * the driver are not considered, because they are slow for other reasons.
 */
static void advise_link(struct gf_answer *answer, const struct usual *usual,
                        const struct gf_rank_row *row)
{
    const double cost = link_cost(row);

    if (usual->link_cost > 0 && cost > FACTOR * usual->link_cost &&
        row->of_pinned.duration_s > LEAST_S)
        gf_lines_add(&answer->helps,
                     "pinned and staged copies of rank %ld are slow (%s, median %s), perhaps "
                     "because of its "
                     "PCIe link: run `gpufeed doctor` on its host, and read \"GPU Link Info\" of "
                     "`nvidia-smi -q` while "
                     "the rank copies",
                     row->rank, gf_amount_rate(1 / cost), gf_amount_rate(1 / usual->link_cost));
}

static void compare_end(const struct usual *usual, struct gf_rank_row *row,
                        struct gf_textbuf *words)
{
    const double early = usual->last - row->last;

    if (early > gf_max(5, usual->span / 20))
        gf_say(words, "%swrote its last line %s before the other ranks", comma(words),
               gf_amount_time(early));
}

/* A rank that differs. */
struct found {
    const struct gf_rank_row *row;
    char *text;
};

GF_COMPARATOR(by_excess, struct found,
              gf_order(other->row->excess_s, one->row->excess_s)
                  ?: gf_order(one->row->rank, other->row->rank))

/*
 * Returns a sentence that begins with a lower-case letter, because it is also used as an item of a
 * list.
 */
static char *sentence_of(const struct gf_answer *answer, const struct usual *usual,
                         struct gf_rank_row *row)
{
    const char *host = gf_job_text(answer->job, row->host);
    char text[TEXT], *ret = NULL;
    struct gf_textbuf words = {.buf = text, .size = sizeof(text)};

    compare_steps(usual, row, &words);
    compare_stalls(answer, usual, row, &words);
    if (compare_share(answer, usual, row, gpu_empty(row), usual->gpu_empty,
                      "left its GPU without work", &words)) {
        say_gpu_cause(answer, row, &words);
        gf_say(&words, ")");
    }
    compare_delays(answer, usual, row, &words);
    /* If a rank's PCIe link is slow, copies take longer, even if no thread waits for them. */
    if (compare_share(answer, usual, row, gpu_copying(row), usual->gpu_copying,
                      "had only copies on its GPU", &words))
        gf_say(&words, ")");
    compare_copies(answer, usual, row, &words);
    compare_end(usual, row, &words);
    if (!words.at)
        return NULL;
    const int length =
        asprintf(&ret, *host ? "rank %ld on %s %s" : "rank %ld%s %s", row->rank, host, text);
    return gf_cli_memory(length < 0 ? NULL : ret);
}

void gf_rank_compare(struct gf_answer *answer)
{
    const struct gf_rank_table *table = &answer->table;
    size_t count = 0;

    answer->slow_rank = -1;
    if (table->count < 2)
        return;
    GF_OWNED struct found *found = gf_cli_alloc(table->count, sizeof(*found));
    const struct usual usual = usual_of(table);
    for (size_t i = 0; i < table->count; i++) {
        found[count].row = &table->rows[i];
        found[count].text = sentence_of(answer, &usual, &table->rows[i]);
        count += found[count].text != NULL;
        advise_link(answer, &usual, &table->rows[i]);
    }
    qsort(found, count, sizeof(*found), by_excess);
    for (size_t i = 0; i < count; i++) {
        gf_lines_add(&answer->differing, "%s", found[i].text);
        free(found[i].text);
    }
    if (count && found[0].row->excess_s > 0)
        answer->slow_rank = found[0].row->rank;
}
