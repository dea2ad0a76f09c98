/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exit codes and error messages of all verbs. The command is an ordinary program, so its code may
 * use stdio and malloc, unlike the code of the preload library.
 */
#ifndef GF_CLI_COMMON_CLI_H
#define GF_CLI_COMMON_CLI_H

#include "base/base.h"

enum gf_exit {
    GF_EXIT_OK = 0,
    GF_EXIT_FAILED = 1,      /* a file, the machine or memory was not available */
    GF_EXIT_USAGE = 2,       /* the command line is not valid */
    GF_EXIT_PROBLEM = 1,     /* doctor found a problem */
    GF_EXIT_CANNOT_LOOK = 2, /* doctor could not read the machine or write its findings */
    GF_EXIT_CANNOT_RUN = 126,
    GF_EXIT_NOT_FOUND = 127,
};

/*
 * Writes "gpufeed VERB: ..." to standard error, as one line. verb may be "". The text may contain
 * words of the user: gf_plain_text replaces their control characters.
 */
void gf_cli_error(const char *verb, const char *format, ...) GF_PRINTF(2, 3);

/* Writes to buf why the machine at root ("": this one) cannot be read. Returns buf. */
const char *gf_cli_machine_reason(const char *root, int error, char *buf, size_t size);

/* Prints that reason. Returns GF_EXIT_FAILED. */
int gf_cli_machine_error(const char *verb, const char *root, int error);

#endif
