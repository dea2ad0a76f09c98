/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command: a table of verbs, each in its cmd_<verb>.c. An ordinary program of one thread: it
 * may use stdio and malloc, unlike the layers it stands on.
 */
#ifndef GF_CLI_CLI_H
#define GF_CLI_CLI_H

#include "base/base.h"

enum gf_exit {
    GF_EXIT_OK = 0,
    GF_EXIT_FAILED = 1, /* could not be done */
    GF_EXIT_USAGE = 2,  /* was not understood */
    GF_EXIT_MEND = 3,   /* doctor: there is something to mend */
    GF_EXIT_CANNOT_RUN = 126,
    GF_EXIT_NOT_FOUND = 127,
};

struct gf_command {
    const char *name;
    const char *brief;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

extern const struct gf_command gf_commands[];
extern const size_t gf_command_count;

int gf_cmd_report(int argc, char **argv);
int gf_cmd_run(int argc, char **argv);
int gf_cmd_topo(int argc, char **argv);
int gf_cmd_doctor(int argc, char **argv);
int gf_cmd_help(int argc, char **argv);
int gf_cmd_version(int argc, char **argv);

/* The value of --name=VALUE or --name VALUE at argv[*at], which moves on; NULL when it is another word. */
const char *gf_cli_value(char **argv, int *at, const char *name);

/* Says that argument is not understood, or lacks its folder. Returns GF_EXIT_USAGE. */
int gf_cli_not_understood(const char *verb, const char *argument);

/* Says that the machine at root ("": this one) cannot be read. Returns GF_EXIT_FAILED. */
int gf_cli_no_machine(const char *verb, const char *root, int error);

/* Says so, with the nearest one; returns GF_EXIT_USAGE. */
int gf_cli_unknown_verb(const char *name);

/* "gpufeed VERB: ..." on standard error, as one line. */
void gf_cli_error(const char *verb, const char *format, ...) GF_PRINTF(2, 3);

#endif
