/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/run_flags.h"

#include "config/option_text.h"
#include "config/options.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

/*
 * Values of flags in getopt's table. The flag for row i of options.def has the value FLAG_OPTION +
 * i.
 */
enum { FLAG_PRINT = 1, FLAG_INIT, FLAG_OPTION = 256 };

static const struct option *make_table(void)
{
    static char names[GF_OPTION_COUNT][GF_OPTION_FLAG_MAX];
    static struct option table[GF_OPTION_COUNT + 4];
    size_t count = 0;

    for (size_t i = 0; i < GF_OPTION_COUNT; i++)
        table[count++] =
            (struct option){gf_option_flag(&gf_option_rows[i], names[i], sizeof(names[i])),
                            required_argument, NULL, FLAG_OPTION + (int)i};
    table[count++] = (struct option){"help", no_argument, NULL, GF_FLAG_HELP};
    table[count++] = (struct option){"init", no_argument, NULL, FLAG_INIT};
    table[count++] = (struct option){"print", no_argument, NULL, FLAG_PRINT};
    return table;
}

static int report_missing_value(const struct option *flag)
{
    char allowed[256];

    gf_option_text_allowed(&gf_option_rows[flag->val - FLAG_OPTION], allowed, sizeof(allowed));
    return gf_cli_fail(-EINVAL, "run", "--%s needs a value; allowed: %s", flag->name, allowed);
}

static int set_option(const struct option *flag, const char *value, struct gf_env *env)
{
    const struct gf_option_row *row = &gf_option_rows[flag->val - FLAG_OPTION];
    char mistake[256];

    if (gf_option_check(row, value))
        return gf_cli_fail(-EINVAL, "run", "--%s=%.80s %s", flag->name, value,
                           gf_validate_value(row, value, mistake, sizeof(mistake)));
    gf_env_set(env, row->name, value);
    return 0;
}

int gf_run_flags_read(int argc, char **argv, struct gf_env *env, struct gf_run_flags *ret)
{
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = make_table()};
    int code;

    *ret = (struct gf_run_flags){0};
    while ((code = gf_flags_next(&reader)) != GF_FLAG_END) {
        if (code == GF_FLAG_HELP)
            ret->help = true;
        else if (code == FLAG_PRINT)
            ret->print = true;
        else if (code == FLAG_INIT)
            ret->init = true;
        else if (code == GF_FLAG_NO_VALUE)
            return report_missing_value(reader.flag);
        else if (code == GF_FLAG_INVALID || set_option(reader.flag, optarg, env))
            return -EINVAL;
    }
    ret->command = reader.at;
    if (ret->command < argc && strcmp(argv[ret->command], "-") == 0 &&
        strcmp(argv[ret->command - 1], "--") != 0)
        return gf_cli_fail(-EINVAL, "run", "- is not a flag; `gpufeed run --help` lists them");
    return 0;
}

static void print_row(FILE *out, const struct gf_option_row *row, unsigned width)
{
    char flag[GF_OPTION_FLAG_MAX], form[256], about[1024];

    fprintf(out, "  --%s=%s\n", gf_option_flag(row, flag, sizeof(flag)),
            gf_option_text_form(row, form, sizeof(form)));
    snprintf(about, sizeof(about), "%s: %s (default: %s). %s", row->name, row->help,
             *row->fallback ? row->fallback : "none", row->text);
    gf_wrap(out, "", about, 6, width);
}

void gf_run_flags_help(FILE *out)
{
    const unsigned width = gf_wrap_width(out);
    size_t section = 0;

    fputs("Usage: gpufeed run [flags] [--] COMMAND [ARGUMENT...]\n\n", out);
    gf_wrap(out, "",
            "Runs COMMAND with libgpufeed preloaded. If it is certain which GPU COMMAND will use, "
            "`gpufeed run` binds the process before COMMAND starts. Each flag below names the "
            "environment variable that it sets; setting the variable has the same effect.",
            0, width);
    fputs("\n  --print\n      show what `gpufeed run` would do, without running COMMAND\n"
          "  --init\n      stay as a container's init: forward signals to COMMAND, reap orphans\n"
          "  -h, --help\n      show this help\n",
          out);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        if (section < gf_option_section_count && gf_option_sections[section].first == i)
            fprintf(out, "\n%s\n", gf_option_sections[section++].title);
        print_row(out, &gf_option_rows[i], width);
    }
    fputc('\n', out);
    gf_wrap(
        out, "",
        "Exit code: the exit code of COMMAND; 2 if a flag is not valid, 126 if COMMAND cannot be "
        "run, 127 if COMMAND is not found, 1 if the library is not found. If GPUFEED_VERBOSE is "
        "not set, `gpufeed run` sets it to 1.",
        0, width);
}
