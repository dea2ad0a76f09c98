/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/*
 * Exit codes and error messages of all verbs. The command is an ordinary program, so its code may
 * use stdio and malloc, unlike the code of the preload library.
 */

enum gf_exit {
    GF_EXIT_OK = 0,
    GF_EXIT_FAILED = 1,      /* a file, the machine or memory was not available */
    GF_EXIT_USAGE = 2,       /* the command line is not valid */
    GF_EXIT_SLOWER = 3,      /* compare found more than --fail-above permits */
    GF_EXIT_PROBLEM = 1,     /* doctor found a problem */
    GF_EXIT_CANNOT_LOOK = 2, /* doctor could not read the machine or write its findings */
    GF_EXIT_CANNOT_RUN = 126,
    GF_EXIT_NOT_FOUND = 127,
};

/* The verb that runs, for messages; "" before and afterwards. */
extern const char *gf_cli_verb;

/*
 * Writes "gpufeed VERB: ..." to standard error, as one line. The text may contain words of the user:
 * gf_plain_text replaces their control characters. Returns the code, so that the caller can return it.
 */
int gf_cli_fail(int code, const char *format, ...) GF_PRINTF(2, 3);
#define gf_cli_error(...) ((void)gf_cli_fail(0, __VA_ARGS__))

/* The same for a function that reports lines. */
void gf_cli_report(void *unused, const char *line);

/*
 * Returns memory that malloc or a similar function has returned. If it is NULL, prints that memory is
 * short, and exits with GF_EXIT_FAILED: no verb can answer without it.
 */
void *gf_cli_memory(void *memory);

/* Returns zeroed memory for `count` elements, which the caller frees; never NULL. */
void *gf_cli_alloc(size_t count, size_t size);

/* For a pointer to memory of malloc, or NULL: the memory is freed at the end of the block. */
#define GF_OWNED __attribute__((cleanup(gf_cli_free)))
static inline void gf_cli_free(const void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof(memory));
    free(memory);
}

/* Returns why the machine at root ("": this one) cannot be read, by gf_text. */
const char *gf_cli_machine_reason(const char *root, int error);

/*
 * Reads a verb's flags by getopt_long. Abbreviations are refused, because a flag that is added later
 * could make them ambiguous.
 */

enum {
    GF_FLAG_END = -1,       /* no flag is left; `at` is the index of the first operand */
    GF_FLAG_INVALID = '?',  /* the flag is invalid; the error was printed */
    GF_FLAG_NO_VALUE = ':', /* the flag lacks its value; the caller reports it */
    GF_FLAG_HELP = 'h',     /* -h, or --help, whose row has this value */
};

/*
 * A reader of a verb's flags. The caller sets argc, argv and flags, and leaves the other members 0.
 * Only one reader may exist at a time, because getopt has global state.
 */
struct gf_flags {
    int argc;
    char **argv;                /* argv[0] is the verb */
    const struct option *flags; /* ends with a row of zeros */
    const char *shorts;        /* short flags in getopt's form, at most 10 characters; NULL: none */
    int at;                    /* index in argv of the next word */
    const struct option *flag; /* row of the flag that was read last */
    bool ended;                /* "--" has ended the flags */
};

/*
 * Reads the next flag. Returns `val` of the flag's row, or GF_FLAG_*. For a short flag, returns its
 * letter or GF_FLAG_NO_VALUE, and sets `flag` to NULL. The flag's value is in optarg: the text after
 * "=", or the next word unless that word is "--".
 */
int gf_flags_next(struct gf_flags *reader);

/* Prints that the verb does not accept the word. Returns GF_EXIT_USAGE. */
int gf_flags_excess(const char *word);

/* What a verb does with its words. The functions print errors, and return an exit code. */
struct gf_words {
    void (*help)(void); /* prints the help */
    /* `code` is the result of gf_flags_next, other than the end, the help and an invalid flag. */
    int (*flag)(void *closure, int code, const struct gf_flags *reader);
    int (*operand)(void *closure, const char *word); /* NULL: the verb has no operands */
    bool leaves_rest;                                /* the words after "--" are the caller's */
};

/*
 * Reads all words; flags may follow operands. Returns false if the verb ends here with *ret_code,
 * because the help or an error was printed.
 */
bool gf_flags_read(struct gf_flags *reader, const struct gf_words *words, void *closure,
                   int *ret_code);

/* Prints the JSON, indented, and drops the reference. main checks standard output for errors. */
void gf_cli_print_json(json_t *json);

/* Returns a list of `count` elements. `element` is an expression of the index i. */
#define GF_JSON_LIST(i, count, element)                                                            \
    ({                                                                                             \
        json_t *const gf_list = json_array();                                                      \
        for (size_t i = 0; i < (count); i++)                                                       \
            json_array_append_new(gf_list, element);                                               \
        gf_list;                                                                                   \
    })

/* Returns the text as a JSON string, or JSON's null if the text is NULL, "" or not UTF-8. */
static inline json_t *gf_json_text(const char *text)
{
    json_t *string = text && *text ? json_string(text) : NULL;
    return string ? string : json_null();
}

/*
 * Returns the number as JSON, or null if it is not known. Sums and rates of a damaged report may be
 * infinite, which JSON cannot express.
 */
static inline json_t *gf_json_number(double number, bool known)
{
    return known && isfinite(number) ? json_real(number) : json_null();
}

/*
 * The verbs. argv[0] is the verb's name. Each returns the exit code, except that `stacks` executes
 * gpufeed-stacks in place of this command unless it has printed the help or an error.
 */
int gf_cmd_compare(int argc, char **argv);
int gf_cmd_doctor(int argc, char **argv);
int gf_cmd_preload_path(int argc, char **argv);
int gf_cmd_report(int argc, char **argv);
int gf_cmd_run(int argc, char **argv);
int gf_cmd_stacks(int argc, char **argv);
int gf_cmd_top(int argc, char **argv);
int gf_cmd_topo(int argc, char **argv);
