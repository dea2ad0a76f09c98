/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of a comparison as text. */
#include "base/fmt.h"
#include "base/parse.h"
#include "tools/common/cli.h"
#include "tools/compare/arm.h"
#include "tools/compare/one_run.h"
#include "tools/compare/trial.h"

#include <limits.h>
#include <stdio.h>

#define CLOCKS_DIFFER 0.02
#define CAUSES_SHOWN 3
#define MIB (double)(1 << 20)

/* Prints one line of the table: a label, a text for each arm, and the change. */
static void print_row(FILE *out, const char *label, const char *before, const char *after,
                      const char *change)
{
    const int pad = *change ? 26 : 0;
    fprintf(out, "  %-22s%-26s%-*s%s\n", label, before, pad, after, change);
}

/* Writes the sign, which may be "", and the time with its unit. */
static void format_time(char *ret, size_t size, const char *sign, double seconds)
{
    if (seconds < 1e-3)
        snprintf(ret, size, "%s%.0f us", sign, seconds * 1e6);
    else if (seconds < 1)
        snprintf(ret, size, "%s%.2f ms", sign, seconds * 1e3);
    else
        snprintf(ret, size, "%s%.2f s", sign, seconds);
}

static void format_change(char *ret, size_t size, double before, double after)
{
    format_time(ret, size, after < before ? "-" : "+",
                after < before ? before - after : after - before);
}

static void print_times(FILE *out, const char *label, double before, double after)
{
    char texts[2][32], change[32] = "";

    format_time(texts[0], sizeof(texts[0]), "", before);
    format_time(texts[1], sizeof(texts[1]), "", after);
    if (before > 0)
        snprintf(change, sizeof(change), "%+.1f %%", 100 * (after / before - 1));
    print_row(out, label, texts[0], texts[1], change);
}

/* Writes "392 MiB in 1.20 s", or "none". */
static void format_copies(char *ret, size_t size, const struct gf_figures_copies *copies,
                          double runs)
{
    char time[32];

    snprintf(ret, size, "none");
    if (copies->bytes <= 0)
        return;
    format_time(time, sizeof(time), "", copies->seconds / runs);
    if (copies->seconds > 0)
        snprintf(ret, size, "%.0f MiB in %s", copies->bytes / runs / MIB, time);
    else
        snprintf(ret, size, "%.0f MiB, not timed", copies->bytes / runs / MIB);
}

/*
 * Prints a row with a part of each arm's copied bytes, as a share of these bytes. Prints no row if
 * the part is 0 in both arms.
 */
static void print_part(FILE *out, const char *label, double before, double after,
                       const struct gf_figures_copies *copies[2])
{
    const double parts[] = {before, after};
    char texts[2][32];

    for (size_t i = 0; i < 2; i++)
        snprintf(texts[i], sizeof(texts[i]), "%.0f %%",
                 copies[i]->bytes > 0 ? 100 * parts[i] / copies[i]->bytes : 0);
    if (before > 0 || after > 0)
        print_row(out, label, texts[0], texts[1], "");
}

static void print_compared_copies(FILE *out, const char *label,
                                  const struct gf_figures_copies *copies[2], const double runs[2])
{
    char texts[2][64], change[32] = "";

    if (copies[0]->bytes <= 0 && copies[1]->bytes <= 0)
        return;
    for (size_t i = 0; i < 2; i++)
        format_copies(texts[i], sizeof(texts[i]), copies[i], runs[i]);
    if (copies[0]->seconds > 0 && copies[1]->seconds > 0)
        format_change(change, sizeof(change), copies[0]->seconds / runs[0],
                      copies[1]->seconds / runs[1]);
    print_row(out, label, texts[0], texts[1], change);
    print_part(out, "  of them staged", copies[0]->staged_bytes, copies[1]->staged_bytes, copies);
    print_part(out, "  of them pinned", copies[0]->pinned_bytes, copies[1]->pinned_bytes, copies);
}

/* Prints the share of the time in which the GPUs had nothing to do. */
static void print_gpus(FILE *out, const struct gf_figures figures[2])
{
    char texts[2][32], change[32];
    double shares[2];

    if (figures[0].gpu_s <= 0 || figures[1].gpu_s <= 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        shares[i] = 100 * figures[i].gpu_empty_s / figures[i].gpu_s;
        snprintf(texts[i], sizeof(texts[i]), "%.1f %%", shares[i]);
    }
    snprintf(change, sizeof(change), "%+.1f points", shares[1] - shares[0]);
    print_row(out, "GPU without work", texts[0], texts[1], change);
}

static void print_stalls(FILE *out, const char *label, const struct gf_figures_stalls *before,
                         const struct gf_figures_stalls *after, const double runs[2])
{
    const struct gf_figures_stalls *rows[] = {before, after};
    char texts[2][64], time[32], change[32];

    for (size_t i = 0; i < 2; i++) {
        format_time(time, sizeof(time), "", rows[i]->seconds / runs[i]);
        snprintf(texts[i], sizeof(texts[i]), "none");
        if (rows[i]->count > 0)
            snprintf(texts[i], sizeof(texts[i]), "%.*f in %s", runs[i] > 1 ? 1 : 0,
                     rows[i]->count / runs[i], time);
    }
    format_change(change, sizeof(change), before->seconds / runs[0], after->seconds / runs[1]);
    print_row(out, label, texts[0], texts[1], change);
}

static double distance(const struct gf_figures_stalls *before,
                       const struct gf_figures_stalls *after, const double runs[2])
{
    const double change = after->seconds / runs[1] - before->seconds / runs[0];
    return change < 0 ? -change : change;
}

/* Prints the causes whose time changed most. */
static void print_causes(FILE *out, struct gf_figures figures[2], const double runs[2])
{
    for (size_t i = 0; i < GF_FIGURES_CAUSES && *figures[1].causes[i].cause; i++)
        gf_figures_cause(&figures[0], figures[1].causes[i].cause);
    for (unsigned shown = 0; shown < CAUSES_SHOWN; shown++) {
        struct gf_figures_stalls *most = NULL, *other = NULL;
        for (size_t i = 0; i < GF_FIGURES_CAUSES && *figures[0].causes[i].cause; i++) {
            struct gf_figures_stalls *row = &figures[0].causes[i];
            struct gf_figures_stalls *pair = gf_figures_cause(&figures[1], row->cause);
            if (distance(row, pair, runs) > (most ? distance(most, other, runs) : 0)) {
                most = row;
                other = pair;
            }
        }
        if (!most)
            return;
        char label[32];
        snprintf(label, sizeof(label), "  by %s", most->cause);
        print_stalls(out, label, most, other, runs);
        most->seconds = other->seconds = most->count = other->count = 0;
    }
}

/* Prints where the time went. The figures of an arm are sums over runs[arm] runs. */
static void print_figures(FILE *out, const struct gf_figures from[2], const double runs[2])
{
    struct gf_figures figures[2] = {from[0], from[1]};
    const struct gf_figures_copies *to[] = {&from[0].to_device, &from[1].to_device};
    const struct gf_figures_copies *back[] = {&from[0].from_device, &from[1].from_device};

    print_gpus(out, from);
    print_compared_copies(out, "copies to the GPU", to, runs);
    print_compared_copies(out, "copies from the GPU", back, runs);
    if (from[0].stalls.count > 0 || from[1].stalls.count > 0) {
        print_stalls(out, "stalls", &from[0].stalls, &from[1].stalls, runs);
        print_causes(out, figures, runs);
    }
}

static double magnitude(double value)
{
    return value < 0 ? -value : value;
}

/*
 * Prints the difference with its interval. If the interval contains 0, prints the largest
 * difference that the interval permits.
 */
static void print_answer(FILE *out, const struct gf_arms *arms, const struct gf_trial *trial)
{
    const struct gf_ratio *ratio = &trial->ratio;
    const double low = 100 * (ratio->low - 1), high = 100 * (ratio->high - 1);
    const char *metric = trial->by_step ? "time per step" : "time";
    const char *name = arms->list[1].name, *base = arms->list[0].name;

    if (low > 0 || high < 0)
        fprintf(out, "%s takes %.1f %% %s %s than %s (95 %% interval: %.1f %% to %.1f %%).\n", name,
                magnitude(100 * (ratio->ratio - 1)), high < 0 ? "less" : "more", metric, base,
                magnitude(high < 0 ? high : low), magnitude(high < 0 ? low : high));
    else
        fprintf(out,
                "No difference in %s larger than %.1f %% between %s and %s (95 %% interval of %s: "
                "%+.1f %% to %+.1f %%).\n",
                metric, magnitude(gf_max(-low, high)), base, name, name, low, high);
}

/* Prints the clocks, because different clocks may explain a difference. */
static void print_clocks(FILE *out, const struct gf_arms *arms, const struct gf_trial *trial)
{
    const struct gf_gpu_clock *clocks = trial->clocks;
    char texts[2][32], change[32];
    double mhz[2];

    if (clocks[0].readings < 1 || clocks[1].readings < 1)
        return;
    for (size_t i = 0; i < 2; i++) {
        mhz[i] = clocks[i].mhz / clocks[i].readings;
        snprintf(texts[i], sizeof(texts[i]), "%.0f MHz", mhz[i]);
    }
    snprintf(change, sizeof(change), "%+.1f %%", mhz[0] > 0 ? 100 * (mhz[1] / mhz[0] - 1) : 0);
    print_row(out, "GPU clock", texts[0], texts[1], change);
    for (size_t i = 0; i < 2; i++)
        snprintf(texts[i], sizeof(texts[i]), "%.0f C", clocks[i].celsius);
    print_row(out, "  temperature", texts[0], texts[1], "");
    if (magnitude(mhz[1] - mhz[0]) > CLOCKS_DIFFER * mhz[0])
        fprintf(out,
                "The GPU clocks differ by more than %.0f %%; this may explain a part of the "
                "difference.\n",
                100 * CLOCKS_DIFFER);
    for (size_t i = 0; i < 2; i++)
        if (clocks[i].limited > 0)
            fprintf(out,
                    "In %.0f %% of the readings of %s, heat or the power limit lowered the clock; "
                    "see `gpufeed doctor`.\n",
                    100 * clocks[i].limited / clocks[i].readings, arms->list[i].name);
}

static double mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/* Prints the difference with its interval, and where the time went. */
static void gf_comparison_print_trial(FILE *out, const struct gf_arms *arms,
                                      const struct gf_trial *trial)
{
    const double runs[] = {(double)trial->pairs, (double)trial->pairs};
    const bool has_report = trial->figures[0].reports > 0 || trial->figures[1].reports > 0;

    if (!has_report)
        fputs("No run wrote a report: no process used a GPU with the library, so there is nothing "
              "to compare.\n",
              out);
    else if (trial->pairs < trial->planned)
        fprintf(out, "Interrupted after %zu of %zu pairs, so there is no interval.\n", trial->pairs,
                trial->planned);
    else
        print_answer(out, arms, trial);
    fprintf(out, "Means of %zu runs for each arm:\n", trial->pairs);
    print_row(out, "", arms->list[0].name, arms->list[1].name, "change");
    print_times(out, trial->by_step ? "time per step" : "time", mean(trial->times[0], trial->pairs),
                mean(trial->times[1], trial->pairs));
    print_figures(out, trial->figures, runs);
    print_clocks(out, arms, trial);
    for (size_t arm = 0; arm < 2; arm++)
        if (has_report && trial->figures[arm].reports < 1)
            fprintf(out, "No run of %s wrote a report: no process used a GPU with the library.\n",
                    arms->list[arm].name);
}

/*
 * Prints the difference between two single reports, without an interval, and where the time went.
 */
static void gf_comparison_print_reports(FILE *out, const char *const names[2],
                                        const struct gf_figures figures[2])
{
    const double runs[] = {1, 1};

    print_row(out, "", names[0], names[1], "change");
    if (figures[0].steps > 0 && figures[1].steps > 0)
        print_times(out, "time per step", figures[0].steps_s / figures[0].steps,
                    figures[1].steps_s / figures[1].steps);
    else
        print_times(out, "time", figures[0].ran_s, figures[1].ran_s);
    print_figures(out, figures, runs);
    fputs("Each report is from one run, so there is no interval.\n", out);
}

/* Compares runs of a command in two environments, or two reports (docs/compare.md). */

enum { FLAG_ARM = 1, FLAG_PAIRS = 'n' };

static const struct option flag_table[] = {
    {"arm", required_argument, NULL, FLAG_ARM},
    {"pairs", required_argument, NULL, FLAG_PAIRS},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

static void print_compare_help(void)
{
    puts("Usage: gpufeed compare [-n N] [--arm NAME:VAR=VALUE]... -- COMMAND [ARGUMENT...]\n"
         "       gpufeed compare A.json B.json\n\n"
         "Runs COMMAND by `gpufeed run` in two arms, by default observe (GPUFEED=observe)\n"
         "and on (GPUFEED=on). Prints the difference with a 95 % interval, and where the\n"
         "time went. Compares the time per step if each run marks steps by\n"
         "gpufeed_set_step, and otherwise the time of the whole command.\n\n"
         "  -n, --pairs N\n"
         "      number of pairs of runs, at least 6 (default: 6). The number is fixed\n"
         "      before the first run. One more pair runs first and is discarded. The\n"
         "      order within each pair is random.\n"
         "  --arm NAME:VAR=VALUE\n"
         "      the environment of an arm. Another --arm with the same NAME adds a\n"
         "      variable; --arm NAME: adds an arm without variables. The first arm is the\n"
         "      basis.\n"
         "  -h, --help\n"
         "      show this help\n\n"
         "With two reports (GPUFEED_REPORT), it compares them, without an interval.\n\n"
         "Ctrl-C (SIGINT) ends the present run and prints the means of the finished pairs.\n\n"
         "Exit code: 0 after a comparison, also if the arms differ; 1 if a run failed or a\n"
         "file cannot be read; 2 if the command line is not valid.");
}

struct words {
    struct gf_arms arms;
    size_t pairs;
    bool help;
    int operand; /* index of the first operand */
};

static int read_pairs(const char *text, size_t *ret)
{
    uint64_t number;

    if (gf_parse_u64(text, &number) || number < GF_BOOTSTRAP_PAIRS_MIN ||
        number > GF_BOOTSTRAP_PAIRS_MAX) {
        gf_cli_error("compare", "-n %.40s is not a number of pairs from %u to %u", text,
                     GF_BOOTSTRAP_PAIRS_MIN, GF_BOOTSTRAP_PAIRS_MAX);
        return -EINVAL;
    }
    *ret = (size_t)number;
    return 0;
}

static int read_flags(int argc, char **argv, struct words *ret)
{
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flag_table};
    int code, error = 0;

    *ret = (struct words){.pairs = GF_BOOTSTRAP_PAIRS_MIN};
    while (!error && (code = gf_flags_next_short(&reader, "n:")) != GF_FLAG_END) {
        if (code == GF_FLAG_HELP) {
            ret->help = true;
            return 0;
        }
        if (code == FLAG_ARM)
            error = gf_arms_add(&ret->arms, optarg);
        else if (code == FLAG_PAIRS)
            error = read_pairs(optarg, &ret->pairs);
        else
            error = -EINVAL;
        if (code == GF_FLAG_NO_VALUE)
            gf_cli_error("compare", "-%s%s needs a value; see `gpufeed help compare`",
                         reader.flag ? "-" : "", reader.flag ? reader.flag->name : "n");
    }
    ret->operand = reader.at;
    return error;
}

static int compare_reports(char *const *paths)
{
    struct gf_figures figures[2] = {0};
    char plain[2][NAME_MAX + 1];
    const char *const names[2] = {plain[0], plain[1]};

    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        const int error = gf_figures_add_file(&figures[i], paths[i]);
        snprintf(plain[i], sizeof(plain[i]), "%s", slash ? slash + 1 : paths[i]);
        gf_plain_text(plain[i]);
        if (error == -EINVAL)
            gf_cli_error("compare", "%s is not a report (GPUFEED_REPORT)", paths[i]);
        else if (error)
            gf_cli_error("compare", "cannot read %s: %s", paths[i], strerror(-error));
        if (error)
            return GF_EXIT_FAILED;
    }
    gf_comparison_print_reports(stdout, names, figures);
    return GF_EXIT_OK;
}

static int compare_runs(const struct words *words, char *const *command)
{
    struct gf_trial trial;

    gf_interrupt_begin();
    const int error = gf_trial_run(&words->arms, words->pairs, command, &trial);
    if (error == -EINTR && !trial.pairs)
        gf_cli_error("compare", "interrupted before the end of the first pair that counts");
    else if (!error || error == -EINTR)
        gf_comparison_print_trial(stdout, &words->arms, &trial);
    gf_trial_free(&trial);
    fflush(stdout);
    gf_interrupt_end();
    return error ? GF_EXIT_FAILED : GF_EXIT_OK;
}

int gf_cmd_compare(int argc, char **argv)
{
    struct words words;

    if (read_flags(argc, argv, &words))
        return GF_EXIT_USAGE;
    if (words.help) {
        print_compare_help();
        return GF_EXIT_OK;
    }
    const int left = argc - words.operand;
    const bool has_command = left > 0 && strcmp(argv[words.operand - 1], "--") == 0;
    if (!has_command && left == 2)
        return compare_reports(argv + words.operand);
    if (!has_command) {
        gf_cli_error("compare", "nothing to compare: gpufeed compare -- COMMAND, or "
                                "gpufeed compare A.json B.json");
        return GF_EXIT_USAGE;
    }
    if (gf_arms_finish(&words.arms))
        return GF_EXIT_USAGE;
    return compare_runs(&words, argv + words.operand);
}
