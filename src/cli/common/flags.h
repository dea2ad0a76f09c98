/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags of a verb, by getopt_long. Abbreviations are refused: a later flag would make them
 * ambiguous.
 */
#ifndef GF_CLI_COMMON_FLAGS_H
#define GF_CLI_COMMON_FLAGS_H

#include "base/base.h"

#include <getopt.h>

enum {
    GF_FLAG_END = -1,       /* `at` is the index of the first operand */
    GF_FLAG_INVALID = '?',  /* already reported on standard error */
    GF_FLAG_NO_VALUE = ':', /* the flag lacks its value; the caller reports it */
    GF_FLAG_HELP = 'h',     /* -h, and --help through the table */
};

/* Initialised as {argc, argv, flags}. One reader at a time, because getopt has global state. */
struct gf_flags {
    int argc;
    char **argv;                /* argv[0] is the verb */
    const struct option *flags; /* ends with a row of zeros */
    int at;                     /* the index in argv of the next word */
    const struct option *flag;  /* the row that was read last */
    bool ended;                 /* by "--" */
};

/*
 * Reads the next flag. Returns its val from the table, or one of the above. Its value is in optarg:
 * the rest of the word after "=", or the next word unless that is "--".
 */
int gf_flags_next(struct gf_flags *reader);

/*
 * The same, and also accepts short flags: letters as for getopt, at most 10 characters. Returns such
 * a letter, or GF_FLAG_NO_VALUE; then, `flag` is NULL.
 */
int gf_flags_next_short(struct gf_flags *reader, const char *shorts);

/*
 * For a verb whose flags may follow operands, after GF_FLAG_END. Returns the operand that ended the
 * flags; the next call reads what follows that operand. NULL if "--" or the end of argv ended the
 * flags; then only operands follow, from `at` on.
 */
const char *gf_flags_operand(struct gf_flags *reader);

/* Reports a word that the verb does not accept. Returns GF_EXIT_USAGE. */
int gf_flags_excess(const char *verb, const char *word);

#endif
