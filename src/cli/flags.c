/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/flags.h"

#include "cli/cli.h"
#include "cli/wrap.h"
#include "config/options.h"
#include "config/suggest.h"

#include <errno.h>
#include <string.h>

static const char *const own_flags[] = {"help", "print"};

static int unknown_flag(const char *name)
{
    unsigned best = 1 + (unsigned)strlen(name) / 4;
    char nearest[GF_OPTION_FLAG_MAX] = "", candidate[GF_OPTION_FLAG_MAX];

    for (size_t i = 0; i < gf_option_row_count + GF_ARRAY_LEN(own_flags); i++) {
        if (i < gf_option_row_count)
            gf_option_flag(&gf_option_rows[i], candidate, sizeof(candidate));
        else
            snprintf(candidate, sizeof(candidate), "%s", own_flags[i - gf_option_row_count]);
        const unsigned edits = gf_edits(name, candidate);
        if (edits <= best) {
            best = edits;
            memcpy(nearest, candidate, sizeof(nearest));
        }
    }
    if (*nearest)
        gf_cli_error("run", "--%s is not a flag (did you mean --%s?)", name, nearest);
    else
        gf_cli_error("run", "--%s is not a flag; `gpufeed run --help` lists them", name);
    return -EINVAL;
}

/* Those without a value; false for all others. */
static bool own_flag(const char *flag, struct gf_flags *ret)
{
    if (strcmp(flag, "help") == 0)
        ret->help = true;
    else if (strcmp(flag, "print") == 0)
        ret->print = true;
    else
        return false;
    return true;
}

static int set_option(const struct gf_option_row *row, const char *flag, const char *value,
                      struct gf_env *env)
{
    char allowed[256], mistake[256];

    if (!value) {
        gf_option_allowed(row, allowed, sizeof(allowed));
        gf_cli_error("run", "--%s needs a value: allowed is %s", flag, allowed);
        return -EINVAL;
    }
    if (gf_option_check(row, value)) {
        gf_cli_error("run", "--%s=%.80s %s", flag, value, gf_option_mistake(row, value, mistake, sizeof(mistake)));
        return -EINVAL;
    }
    gf_env_set(env, row->name, value);
    return 0;
}

/* One flag at argv[*at]; moves *at to its last word. */
static int read_flag(int argc, char **argv, int *at, struct gf_env *env, struct gf_flags *ret)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    char flag[64];

    snprintf(flag, sizeof(flag), "%.*s", (int)(equals ? equals - word : (int)strlen(word)), word);
    if (own_flag(flag, ret)) {
        if (equals)
            gf_cli_error("run", "--%s takes no value", flag);
        return equals ? -EINVAL : 0;
    }
    const struct gf_option_row *row = gf_option_by_flag(flag);
    if (!row)
        return unknown_flag(flag);
    const char *value = equals ? equals + 1 : NULL;
    /* "--" ends the flags: nobody means a file of that name. */
    if (!equals && *at + 1 < argc && strcmp(argv[*at + 1], "--") != 0)
        value = argv[++*at];
    return set_option(row, flag, value, env);
}

int gf_flags_read(int argc, char **argv, struct gf_env *env, struct gf_flags *ret)
{
    int at = 1;

    *ret = (struct gf_flags){.command = argc};
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (strcmp(argv[at], "-h") == 0) {
            ret->help = true;
        } else if (argv[at][1] != '-') {
            gf_cli_error("run", "%s is not a flag; `gpufeed run --help` lists them", argv[at]);
            return -EINVAL;
        } else {
            const int error = read_flag(argc, argv, &at, env, ret);
            if (error)
                return error;
        }
    }
    ret->command = at;
    return 0;
}

static void print_row(FILE *out, const struct gf_option_row *row, unsigned width)
{
    char flag[GF_OPTION_FLAG_MAX], form[256], about[1024];

    fprintf(out, "  --%s=%s\n", gf_option_flag(row, flag, sizeof(flag)),
            gf_option_form(row, form, sizeof(form)));
    snprintf(about, sizeof(about), "%s: %s (default: %s). %s", row->name, row->help,
             *row->fallback ? row->fallback : "none", row->text);
    gf_wrap(out, about, 6, width);
}

void gf_flags_help(FILE *out)
{
    const unsigned width = gf_wrap_width(out);
    size_t section = 0;

    fputs("Usage: gpufeed run [flags] [--] COMMAND [ARGUMENT...]\n\n", out);
    gf_wrap(out,
            "Runs COMMAND with libgpufeed preloaded, and bound from its first instruction where it "
            "is certain which GPU it will use. Each flag sets the variable named behind it; the "
            "variable alone does the same.",
            0, width);
    fputs("\n  --print\n      show what would be done, and do nothing\n"
          "  -h, --help\n      show this\n",
          out);
    for (size_t i = 0; i < gf_option_row_count; i++) {
        if (section < gf_option_section_count && gf_option_sections[section].first == i)
            fprintf(out, "\n%s\n", gf_option_sections[section++].title);
        print_row(out, &gf_option_rows[i], width);
    }
    fputc('\n', out);
    gf_wrap(out,
            "Exit code: that of COMMAND; 2 when a flag is not understood, 126 when COMMAND cannot "
            "be run, 127 when it is not found, 1 when the library is not where it should be. From "
            "`gpufeed run`, GPUFEED_VERBOSE is 1 unless it is set.",
            0, width);
}
