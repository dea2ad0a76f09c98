/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "config/suggest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct gf_command gf_commands[] = {
    {"run", "run a program with the library preloaded", gf_cmd_run},
    {"report", "show the events of a log", gf_cmd_report},
    {"topo", "show nodes, CPUs and GPUs, and what this process may use", gf_cmd_topo},
    {"doctor", "say what on this host keeps a GPU waiting, and what mends it", gf_cmd_doctor},
    {"help", "show this help, or that of a verb", gf_cmd_help},
    {"version", "show the version and those of what is built in", gf_cmd_version},
};

const size_t gf_command_count = GF_ARRAY_LEN(gf_commands);

void gf_cli_error(const char *verb, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "gpufeed%s%s: %s\n", *verb ? " " : "", verb, text);
}

const char *gf_cli_value(char **argv, int *at, const char *name)
{
    const size_t length = strlen(name);
    const char *word = argv[*at];

    if (strncmp(word, name, length) != 0)
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    if (word[length] || !argv[*at + 1])
        return NULL;
    return argv[++*at];
}

static const struct gf_command *command_by_name(const char *name)
{
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    for (size_t i = 0; i < gf_command_count; i++)
        if (strcmp(gf_commands[i].name, name) == 0)
            return &gf_commands[i];
    return NULL;
}

int gf_cli_not_understood(const char *verb, const char *argument)
{
    if (strcmp(argument, "--machine") == 0 || (strcmp(argument, "--record") == 0 && strcmp(verb, "topo") == 0))
        gf_cli_error(verb, "%s needs a folder", argument);
    else
        gf_cli_error(verb, "%s is not understood; `gpufeed help %s` says what is", argument, verb);
    return GF_EXIT_USAGE;
}

int gf_cli_no_machine(const char *verb, const char *root, int error)
{
    const bool other = error == -ENOENT && *root && access(root, F_OK) == 0;

    gf_cli_error(verb, "cannot read %s: %s", *root ? root : "this machine",
                 other ? "it is no folder that `gpufeed topo --record` has written" : strerror(-error));
    return GF_EXIT_FAILED;
}

int gf_cli_unknown_verb(const char *name)
{
    const unsigned most = 1 + (unsigned)strlen(name) / 4;

    for (size_t i = 0; i < gf_command_count; i++)
        if (gf_edits(name, gf_commands[i].name) <= most) {
            gf_cli_error("", "%s is not a verb (did you mean %s?)", name, gf_commands[i].name);
            return GF_EXIT_USAGE;
        }
    gf_cli_error("", "%s is not a verb; `gpufeed help` lists them, and `gpufeed run -- COMMAND` runs a program",
                 name);
    return GF_EXIT_USAGE;
}

/*
 * Writes out what standard output still holds. 0, or why it did not take everything. An earlier failure may leave
 * nothing to write now and an errno that is not its own any more: one byte more says what it was.
 */
static int flush_output(void)
{
    if (fflush(stdout))
        return errno;
    if (!ferror(stdout))
        return 0;
    return putchar('\n') < 0 || fflush(stdout) ? errno : EIO;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        gf_cmd_help(0, NULL);
        return GF_EXIT_USAGE;
    }
    const struct gf_command *command = command_by_name(argv[1]);
    if (!command)
        return gf_cli_unknown_verb(argv[1]);
    const int code = command->run(argc - 1, argv + 1);
    /* A full disk or a closed pipe behind standard output is a failure that scripts must see. */
    const int error = flush_output();
    if (!error)
        return code;
    gf_cli_error("", "cannot write: %s", strerror(error));
    return code && code != GF_EXIT_MEND ? code : GF_EXIT_FAILED;
}
