/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of a comparison. */
#include "base/fmt.h"
#include "base/parse.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/compare/compare.h"

#include <stdlib.h>
#include <sys/stat.h>

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

/* Returns the sign, which may be "", and the time with its unit. */
static const char *time_text(const char *sign, double seconds)
{
    return seconds < 1e-3 ? gf_text("%s%.0f us", sign, seconds * 1e6)
           : seconds < 1  ? gf_text("%s%.2f ms", sign, seconds * 1e3)
                          : gf_text("%s%.2f s", sign, seconds);
}

static const char *change_text(double before, double after)
{
    return time_text(after < before ? "-" : "+", fabs(after - before));
}

static void print_times(FILE *out, const char *label, double before, double after)
{
    print_row(out, label, time_text("", before), time_text("", after),
              before > 0 ? gf_text("%+.1f %%", 100 * (after / before - 1)) : "");
}

/* Returns "392 MiB in 1.20 s", or "none". */
static const char *copies_text(const struct gf_copy_sum *copies, double runs)
{
    const double mib = copies->bytes / runs / MIB;

    return copies->bytes <= 0 ? "none"
           : copies->duration_s > 0
               ? gf_text("%.0f MiB in %s", mib, time_text("", copies->duration_s / runs))
               : gf_text("%.0f MiB, not timed", mib);
}

/* Sums over staged copies, pinned copies, and copies left to the driver. */
static struct gf_copy_sum copies_of(const struct gf_figures *figures, enum gf_direction direction)
{
    struct gf_copy_sum all = {0};

    for (int way = 0; way < GF_WAY_OTHER; way++)
        gf_copy_sum_add(&all, &figures->copies[direction][way]);
    return all;
}

/*
 * Prints a row with the bytes that were copied in this way, as a share of each arm's copied bytes.
 * Prints no row if neither arm has any.
 */
static void print_way(FILE *out, const char *label, const struct gf_figures figures[2],
                      enum gf_direction direction, enum gf_way way)
{
    const char *texts[2];
    bool has_bytes = false;

    for (size_t i = 0; i < 2; i++) {
        const double all = copies_of(&figures[i], direction).bytes;
        const double part = figures[i].copies[direction][way].bytes;
        texts[i] = gf_text("%.0f %%", all > 0 ? 100 * part / all : 0);
        has_bytes |= part > 0;
    }
    if (has_bytes)
        print_row(out, label, texts[0], texts[1], "");
}

static void print_compared_copies(FILE *out, const char *label, const struct gf_figures figures[2],
                                  enum gf_direction direction, const double runs[2])
{
    const struct gf_copy_sum copies[] = {copies_of(&figures[0], direction),
                                         copies_of(&figures[1], direction)};

    if (copies[0].bytes <= 0 && copies[1].bytes <= 0)
        return;
    print_row(out, label, copies_text(&copies[0], runs[0]), copies_text(&copies[1], runs[1]),
              copies[0].duration_s > 0 && copies[1].duration_s > 0
                  ? change_text(copies[0].duration_s / runs[0], copies[1].duration_s / runs[1])
                  : "");
    print_way(out, "  of them staged", figures, direction, GF_WAY_STAGED);
    print_way(out, "  of them pinned", figures, direction, GF_WAY_PINNED);
}

/* Prints the time of a cause, or of all, on both sides. */
static void print_row_of_cause(FILE *out, const char *label, const struct gf_figures_row rows[2],
                               const double runs[2])
{
    const char *texts[2];

    for (size_t i = 0; i < 2; i++) {
        const char *time = time_text("", rows[i].seconds / runs[i]);
        texts[i] = rows[i].count > 0
                       ? gf_text("%.*f in %s", runs[i] > 1 ? 1 : 0, rows[i].count / runs[i], time)
                   : rows[i].seconds > 0 ? time
                                         : "none";
    }
    print_row(out, label, texts[0], texts[1],
              change_text(rows[0].seconds / runs[0], rows[1].seconds / runs[1]));
}

/* The line of the side on which the cause took more time; "" if unknown. */
static const char *line_of(const struct gf_figures_row rows[2], const double runs[2])
{
    return rows[gf_figures_growth(&rows[0], &rows[1], runs) > 0].line;
}

/* Prints the causes whose time changed most. */
static void print_causes(FILE *out, const struct gf_figures from[2], enum gf_figures_of kind,
                         const double runs[2])
{
    struct gf_figures figures[2] = {from[0], from[1]};
    struct gf_figures_row rows[2];

    for (unsigned i = 0; i < CAUSES_SHOWN && gf_figures_take_most(figures, kind, runs, rows); i++) {
        print_row_of_cause(out, gf_text("  by %s", rows[0].cause), rows, runs);
        if (*line_of(rows, runs))
            fprintf(out, "      at %s\n", line_of(rows, runs));
    }
}

/*
 * Prints the share of the time in which the GPUs had nothing to do, and this share of a mean step: if
 * steps are shorter, the share may rise although the GPUs wait less in each step.
 */
static void print_gpus(FILE *out, const struct gf_figures figures[2], const double runs[2])
{
    struct gf_figures_row steps[2] = {{.seconds = 0}};
    const char *texts[2];
    double shares[2];

    if (figures[0].gpu_s <= 0 || figures[1].gpu_s <= 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        shares[i] = 100 * figures[i].gpu_empty_s / figures[i].gpu_s;
        texts[i] = gf_text("%.1f %%", shares[i]);
        if (figures[i].steps > 0)
            steps[i].seconds = shares[i] / 100 * figures[i].steps_s / figures[i].steps;
    }
    print_row(out, "GPU without work", texts[0], texts[1],
              gf_text("%+.1f points", shares[1] - shares[0]));
    if (figures[0].steps > 0 && figures[1].steps > 0)
        print_row_of_cause(out, "  in a mean step", steps, (const double[]){1, 1});
    print_causes(out, figures, GF_OF_IDLE, runs);
}

/* Prints where the time went. The figures of an arm are sums over runs[arm] runs. */
static void print_figures(FILE *out, const struct gf_figures figures[2], const double runs[2])
{
    const struct gf_figures_row stalls[] = {figures[0].stalls, figures[1].stalls};

    print_gpus(out, figures, runs);
    print_compared_copies(out, "copies to the GPU", figures, GF_TO_DEVICE, runs);
    print_compared_copies(out, "copies from the GPU", figures, GF_FROM_DEVICE, runs);
    if (stalls[0].count > 0 || stalls[1].count > 0) {
        print_row_of_cause(out, "stalls", stalls, runs);
        print_causes(out, figures, GF_OF_STALLS, runs);
    }
}

/* Prints the clocks, because different clocks may explain a difference. */
static void print_clocks(FILE *out, const struct gf_side sides[2])
{
    const struct gf_gpu_clock clocks[] = {sides[0].sum.clock, sides[1].sum.clock};
    double mhz[2];

    if (clocks[0].readings < 1 || clocks[1].readings < 1)
        return;
    for (size_t i = 0; i < 2; i++)
        mhz[i] = clocks[i].mhz / clocks[i].readings;
    print_row(out, "GPU clock", gf_text("%.0f MHz", mhz[0]), gf_text("%.0f MHz", mhz[1]),
              gf_text("%+.1f %%", mhz[0] > 0 ? 100 * (mhz[1] / mhz[0] - 1) : 0));
    print_row(out, "  temperature", gf_text("%.0f C", clocks[0].celsius),
              gf_text("%.0f C", clocks[1].celsius), "");
    if (fabs(mhz[1] - mhz[0]) > CLOCKS_DIFFER * mhz[0])
        fprintf(out,
                "The GPU clocks differ by more than %.0f %%; this may explain a part of the "
                "difference.\n",
                100 * CLOCKS_DIFFER);
    for (size_t i = 0; i < 2; i++)
        if (clocks[i].limited > 0)
            fprintf(out,
                    "In %.0f %% of the readings of %s, heat or the power limit lowered the clock; "
                    "see `gpufeed doctor`.\n",
                    100 * clocks[i].limited / clocks[i].readings, sides[i].name);
}

/* Means over the runs of two sides, and the ratio of their times. */
struct comparison {
    const char *names[2];
    struct gf_figures figures[2]; /* sums over the runs */
    double seconds[2], runs[2];
    bool by_step; /* the times are of a step: each run has marked steps */
    struct gf_ratio ratio;
};

static bool have_steps(const struct gf_side *side)
{
    for (size_t i = 0; i < side->count; i++)
        if (!gf_figures_have_steps(&side->runs[i].figures))
            return false;
    return side->count > 0;
}

/* The ratio is that of pairs, or of runs that belong to no pair; 0 unless `has_ratio`. */
static struct comparison compare(const struct gf_side sides[2], bool paired, bool has_ratio)
{
    struct comparison ret = {.by_step = have_steps(&sides[0]) && have_steps(&sides[1])};
    const size_t counts[] = {sides[0].count, sides[1].count};
    double *times[2];

    for (size_t i = 0; i < 2; i++) {
        times[i] = gf_cli_alloc(counts[i], sizeof(*times[i]));
        for (size_t k = 0; k < counts[i]; k++) {
            const struct gf_run *run = &sides[i].runs[k];
            times[i][k] = ret.by_step ? run->figures.steps_s / run->figures.steps : run->wall_s;
        }
        ret.names[i] = sides[i].name;
        ret.figures[i] = sides[i].sum.figures;
        ret.seconds[i] = gf_mean(times[i], counts[i]);
        ret.runs[i] = (double)counts[i];
    }
    if (has_ratio)
        ret.ratio = gf_bootstrap_ratio((const double *const *)times, counts, paired);
    free(times[0]);
    free(times[1]);
    return ret;
}

/* Prints how much steps vary, and how long the GPU waits for data in a mean step. */
static void print_time_of_steps(FILE *out, const struct gf_figures figures[2])
{
    const struct gf_figures_row waits[2] = {{.seconds = figures[0].awaited_s},
                                            {.seconds = figures[1].awaited_s}};
    const double steps[2] = {figures[0].awaited, figures[1].awaited};

    if (figures[0].timed < 1 || figures[1].timed < 1)
        return;
    print_times(out, "  99th percentile", figures[0].timed_p99_s / figures[0].timed,
                figures[1].timed_p99_s / figures[1].timed);
    if (steps[0] >= 1 && steps[1] >= 1 && (waits[0].seconds > 0 || waits[1].seconds > 0))
        print_row_of_cause(out, "  waiting for data", waits, steps);
}

/* Prints the mean times, and where the time went. */
static void print_sides(FILE *out, const struct comparison *sides)
{
    print_row(out, "", sides->names[0], sides->names[1], "change");
    print_times(out, sides->by_step ? "time per step" : "time", sides->seconds[0],
                sides->seconds[1]);
    if (sides->by_step)
        print_time_of_steps(out, sides->figures);
    print_figures(out, sides->figures, sides->runs);
}

/*
 * Prints the difference with its interval. If the interval contains 0, prints the largest
 * difference that the interval permits.
 */
static void print_answer(FILE *out, const struct comparison *sides)
{
    const struct gf_ratio *ratio = &sides->ratio;
    const double low = 100 * (ratio->low - 1), high = 100 * (ratio->high - 1);
    const char *metric = sides->by_step ? "time per step" : "time";
    const char *name = sides->names[1], *base = sides->names[0];

    if (low > 0 || high < 0)
        fprintf(out, "%s takes %.1f %% %s %s than %s (95 %% interval: %.1f %% to %.1f %%).\n", name,
                fabs(100 * (ratio->ratio - 1)), high < 0 ? "less" : "more", metric, base,
                fabs(high < 0 ? high : low), fabs(high < 0 ? low : high));
    else
        fprintf(out,
                "No difference in %s larger than %.1f %% between %s and %s (95 %% interval of %s: "
                "%+.1f %% to %+.1f %%).\n",
                metric, gf_max(-low, high), base, name, name, low, high);
}

/* Prints the difference with its interval, and where the time went. */
static void print_trial(FILE *out, const struct gf_side arms[2], const struct comparison *sides,
                        size_t planned)
{
    const size_t pairs = arms[0].count;
    const bool has_report = sides->figures[0].reports > 0 || sides->figures[1].reports > 0;

    if (!has_report)
        fputs("No run wrote a report: no process used a GPU with the library, so there is nothing "
              "to compare.\n",
              out);
    else if (pairs < planned)
        fprintf(out, "Interrupted after %zu of %zu pairs, so there is no interval.\n", pairs,
                planned);
    else
        print_answer(out, sides);
    fprintf(out, "Means of %zu runs for each arm:\n", pairs);
    print_sides(out, sides);
    print_clocks(out, arms);
    for (size_t arm = 0; arm < 2; arm++)
        if (has_report && sides->figures[arm].reports < 1)
            fprintf(out, "No run of %s wrote a report: no process used a GPU with the library.\n",
                    sides->names[arm]);
}

/* Seconds a run by cause. */
static json_t *causes_json(const struct gf_figures_row *rows, double runs)
{
    json_t *causes = json_object();

    for (size_t i = 0; i < GF_FIGURES_CAUSES && *rows[i].cause; i++)
        json_object_set_new(causes, rows[i].cause, json_real(rows[i].seconds / runs));
    return causes;
}

static json_t *mean_json(double sum, double count)
{
    return count > 0 ? json_real(sum / count) : json_null();
}

/* One side of a comparison: means over its runs. */
static json_t *side_json(const struct comparison *sides, size_t side)
{
    const struct gf_figures *figures = &sides->figures[side];
    const struct gf_copy_sum to = copies_of(figures, GF_TO_DEVICE),
                             from = copies_of(figures, GF_FROM_DEVICE);
    const double runs = sides->runs[side];

    return json_pack("{s:s, s:i, s:f, s:o, s:o, s:o, s:{s:f, s:f}, s:{s:f, s:f}, s:o, s:o}", "name",
                     sides->names[side], "runs", (int)runs, "mean_s", sides->seconds[side],
                     "step_p99_s", mean_json(figures->timed_p99_s, figures->timed), "step_data_s",
                     mean_json(figures->awaited_s, figures->awaited), "gpu_idle",
                     mean_json(figures->gpu_empty_s, figures->gpu_s), "to_device", "bytes",
                     to.bytes / runs, "s", to.duration_s / runs, "from_device", "bytes",
                     from.bytes / runs, "s", from.duration_s / runs, "stalls_s",
                     causes_json(figures->causes[GF_OF_STALLS], runs), "gpu_idle_s",
                     causes_json(figures->causes[GF_OF_IDLE], runs));
}

/* The causes that took more time on the second side, those that grew most first. */
static json_t *growth_json(const struct comparison *sides, enum gf_figures_of kind)
{
    struct gf_figures figures[2] = {sides->figures[0], sides->figures[1]};
    struct gf_figures_row rows[2];
    json_t *all = json_array();

    while (gf_figures_take_most(figures, kind, sides->runs, rows)) {
        const double grown = gf_figures_growth(&rows[0], &rows[1], sides->runs);
        if (grown > 0)
            json_array_append_new(all, json_pack("{s:s, s:s*, s:f}", "cause", rows[1].cause, "line",
                                                 *rows[1].line ? rows[1].line : NULL, "s", grown));
    }
    return all;
}

static void print_comparison(const struct comparison *sides)
{
    const struct gf_ratio *ratio = &sides->ratio;

    gf_cli_print_json(json_pack(
        "{s:i, s:s, s:f, s:f, s:f, s:o, s:o, s:{s:o, s:o}}", "schema", 1, "time",
        sides->by_step ? "step" : "run", "change", ratio->ratio - 1, "low", ratio->low - 1, "high",
        ratio->high - 1, "before", side_json(sides, 0), "after", side_json(sides, 1), "grew",
        "gpu_idle", growth_json(sides, GF_OF_IDLE), "stalls", growth_json(sides, GF_OF_STALLS)));
}

enum { FLAG_ARM = 1, FLAG_JSON, FLAG_FAIL_ABOVE, FLAG_PAIRS = 'n' };

static const struct option flag_table[] = {
    {"arm", required_argument, NULL, FLAG_ARM},
    {"pairs", required_argument, NULL, FLAG_PAIRS},
    {"json", no_argument, NULL, FLAG_JSON},
    {"fail-above", required_argument, NULL, FLAG_FAIL_ABOVE},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

static void print_compare_help(void)
{
    puts("Usage: gpufeed compare [-n N] [--arm NAME:VAR=VALUE]... -- COMMAND [ARGUMENT...]\n"
         "       gpufeed compare A.json B.json\n"
         "       gpufeed compare [--json] [--fail-above P%] A/ B/\n\n"
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
         "  --json\n"
         "      print JSON\n"
         "  --fail-above P%\n"
         "      end with exit code 3 if the second arm or folder takes more than P %\n"
         "      longer than the first: if the interval's lower end is above P %\n"
         "  -h, --help\n"
         "      show this help\n\n"
         "With two reports (GPUFEED_REPORT), it compares them, without an interval. With\n"
         "two folders of reports, it compares their runs, at least 6 in each: a file is\n"
         "one run, and a folder has the reports of all processes of one run.\n\n"
         "Ctrl-C (SIGINT) ends the present run and prints the means of the finished pairs.\n\n"
         "Exit code: 0 after a comparison, also if the arms differ; 1 if a run failed, a\n"
         "file cannot be read, or a folder has too few runs; 2 if the command line is not\n"
         "valid; 3 by --fail-above.");
}

struct words {
    struct gf_arms arms;
    size_t pairs;
    bool json;
    double fail_above;    /* as a part of the time; below 0: never */
    const char *paths[2]; /* reports or folders */
    size_t count;         /* number of operands without "--" before them, also more than 2 */
    char *const *command; /* NULL: none */
};

static int read_pairs(const char *text, size_t *ret)
{
    uint64_t number;

    if (gf_parse_u64(text, &number) || number < GF_BOOTSTRAP_PAIRS_MIN ||
        number > GF_BOOTSTRAP_PAIRS_MAX)
        return gf_cli_fail(GF_EXIT_USAGE, "-n %.40s is not a number of pairs from %u to %u", text,
                           GF_BOOTSTRAP_PAIRS_MIN, GF_BOOTSTRAP_PAIRS_MAX);
    *ret = (size_t)number;
    return GF_EXIT_OK;
}

/* Reads "5%" or "5". */
static int read_limit(const char *text, double *ret)
{
    char *end;
    const double percent = strtod(text, &end);

    if (end == text || (strcmp(end, "%") != 0 && *end) || !(percent >= 0 && percent <= 1000))
        return gf_cli_fail(GF_EXIT_USAGE, "--fail-above=%.40s is not a percentage from 0 to 1000",
                           text);
    *ret = percent / 100;
    return GF_EXIT_OK;
}

static int read_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct words *words = closure;

    switch (code) {
    case FLAG_ARM:
        return gf_arms_add(&words->arms, optarg) ? GF_EXIT_USAGE : GF_EXIT_OK;
    case FLAG_PAIRS:
        return read_pairs(optarg, &words->pairs);
    case FLAG_FAIL_ABOVE:
        return read_limit(optarg, &words->fail_above);
    case FLAG_JSON:
        words->json = true;
        return GF_EXIT_OK;
    default:
        return gf_cli_fail(GF_EXIT_USAGE, "-%s%s needs a value; see `gpufeed help compare`",
                           reader->flag ? "-" : "", reader->flag ? reader->flag->name : "n");
    }
}

static int add_path(void *closure, const char *path)
{
    struct words *words = closure;

    if (words->count++ < GF_ARRAY_LEN(words->paths))
        words->paths[words->count - 1] = path;
    return GF_EXIT_OK;
}

/* Writes the last part of a path, without characters that a terminal would obey. */
static void name_of(const char *path, char *ret, size_t size)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length - (length > 0));
    const char *name = slash ? slash + 1 : path;
    snprintf(ret, size, "%.*s", (int)(path + length - name), name);
    gf_plain_text(ret);
}

static int compare_reports(struct gf_side sides[2], const char *const paths[2])
{
    for (size_t i = 0; i < 2; i++) {
        struct gf_run run = {0};
        if (gf_run_add(&run.figures, paths[i]))
            return GF_EXIT_FAILED;
        run.wall_s = run.figures.ran_s;
        gf_side_add(&sides[i], &run);
    }
    const struct comparison comparison = compare(sides, false, false);
    print_sides(stdout, &comparison);
    puts("Each report is from one run, so there is no interval.");
    return GF_EXIT_OK;
}

/* Returns the exit code of a comparison that has an interval. */
static int verdict(const struct words *words, const struct gf_ratio *ratio)
{
    return words->fail_above >= 0 && ratio->low - 1 > words->fail_above ? GF_EXIT_SLOWER
                                                                        : GF_EXIT_OK;
}

static int compare_runs(const struct words *words, struct gf_side sides[2])
{
    int code = GF_EXIT_FAILED;

    gf_interrupt_begin();
    for (size_t i = 0; i < 2; i++)
        memcpy(sides[i].name, words->arms.list[i].name, sizeof(words->arms.list[i].name));
    const int error = gf_trial_run(&words->arms, words->pairs, words->command, sides);
    if (error == -EINTR && !sides[0].count) {
        gf_cli_error("interrupted before the end of the first pair that counts");
    } else if (!error || error == -EINTR) {
        const struct comparison comparison = compare(sides, true, !error);
        if (words->json && !error)
            print_comparison(&comparison);
        else
            print_trial(words->json ? stderr : stdout, sides, &comparison, words->pairs);
        code = error ? GF_EXIT_FAILED : verdict(words, &comparison.ratio);
    }
    fflush(stdout);
    gf_interrupt_end();
    return code;
}

static int compare_folders(const struct words *words, struct gf_side sides[2])
{
    for (size_t i = 0; i < 2; i++) {
        if (gf_folder_read(words->paths[i], &sides[i]))
            return GF_EXIT_FAILED;
        if (sides[i].count < GF_BOOTSTRAP_PAIRS_MIN)
            return gf_cli_fail(GF_EXIT_FAILED,
                               "%s has reports of %zu runs; a comparison needs at least %u",
                               words->paths[i], sides[i].count, GF_BOOTSTRAP_PAIRS_MIN);
    }
    const struct comparison comparison = compare(sides, false, true);
    if (words->json) {
        print_comparison(&comparison);
    } else {
        print_answer(stdout, &comparison);
        printf("Means of %zu and %zu runs:\n", sides[0].count, sides[1].count);
        print_sides(stdout, &comparison);
    }
    return verdict(words, &comparison.ratio);
}

static int compare_words(const struct words *words, struct gf_side sides[2])
{
    struct stat found;

    if (words->command)
        return compare_runs(words, sides);
    if (words->count != 2)
        return gf_cli_fail(GF_EXIT_USAGE, "nothing to compare: gpufeed compare -- COMMAND, or "
                                          "gpufeed compare A.json B.json");
    for (size_t i = 0; i < 2; i++)
        name_of(words->paths[i], sides[i].name, sizeof(sides[i].name));
    if (stat(words->paths[0], &found) == 0 && S_ISDIR(found.st_mode))
        return compare_folders(words, sides);
    if (words->json || words->fail_above >= 0)
        return gf_cli_fail(GF_EXIT_USAGE,
                           "two reports have no interval; --json and --fail-above need a "
                           "COMMAND or folders of reports");
    return compare_reports(sides, words->paths);
}

int gf_cmd_compare(int argc, char **argv)
{
    /* The command begins behind "--". */
    static const struct gf_words reading = {print_compare_help, read_flag, add_path, true};
    static struct gf_side sides[2];
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flag_table, .shorts = "n:"};
    struct words words = {.pairs = GF_BOOTSTRAP_PAIRS_MIN, .fail_above = -1};
    int code;

    if (!gf_flags_read(&reader, &reading, &words, &code))
        return code;
    if (reader.at < argc && !words.count)
        words.command = argv + reader.at;
    if (words.command && gf_arms_finish(&words.arms))
        return GF_EXIT_USAGE;
    code = compare_words(&words, sides);
    free(sides[0].runs);
    free(sides[1].runs);
    return code;
}
