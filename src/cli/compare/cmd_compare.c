/* SPDX-License-Identifier: Apache-2.0 */
/* Compares runs of a command in two environments, or two reports (docs/compare.md). */
#include "cli/compare/cmd_compare.h"

#include "base/parse.h"
#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "base/fmt.h"
#include "cli/compare/arm.h"
#include "cli/compare/comparison.h"
#include "cli/compare/interrupt.h"
#include "cli/compare/trial.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { FLAG_ARM = 1, FLAG_PAIRS = 'n' };

static const struct option flag_table[] = {
    {"arm", required_argument, NULL, FLAG_ARM},
    {"pairs", required_argument, NULL, FLAG_PAIRS},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

static void print_help(void)
{
    puts("Usage: gpufeed compare [-n N] [--arm NAME:VAR=VALUE]... -- COMMAND [ARGUMENT...]\n"
         "       gpufeed compare A.json B.json\n\n"
         "Runs COMMAND by `gpufeed run` in two arms, by default observe (GPUFEED=observe)\n"
         "and on (GPUFEED=on). Prints the difference with a 95 % interval, and where the\n"
         "time went. Compares the time per step if each run marks steps by gpufeed_set_step,\n"
         "and otherwise the time of the whole command.\n\n"
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
        print_help();
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
