/* SPDX-License-Identifier: Apache-2.0 */
/* Text for terminal, shell, JSON. */
#pragma once

#include "base/cpus.h"
#include "base/input_file.h"

#include <stdio.h>

#define GF_TEXT_SIZE 1024u

/*
 * Formats a text of less than GF_TEXT_SIZE bytes, and returns it. It is valid until a thousand more
 * have been made: it is for a line of output, and is not kept. Only one thread may use such texts.
 */
char *gf_text(const char *format, ...) GF_PRINTF(1, 2);

/* Returns a set of CPUs or nodes as such a text of less than `size` bytes, at most GF_TEXT_SIZE. */
#define gf_set_text(set, size) gf_text("%s", gf_set_format(set, (char[GF_TEXT_SIZE]){0}, size))

/*
 * Reads a regular file of at most `most` bytes. Returns its text, which the caller frees, and its
 * length. Returns NULL and sets errno if the file is of another kind (EINVAL), is larger (EFBIG), or
 * cannot be read.
 */
char *gf_whole_file_read(const char *path, size_t most, size_t *ret_length);

/*
 * Returns how many elements are at the front of a list for which `condition`, an expression of the index i,
 * holds. It must hold for no element behind them.
 */
#define GF_FRONT_COUNT(i, count, condition)                                                        \
    ({                                                                                             \
        size_t gf_low = 0, gf_high = (count);                                                      \
        while (gf_low < gf_high) {                                                                 \
            const size_t i = gf_low + (gf_high - gf_low) / 2;                                      \
            if (condition)                                                                         \
                gf_low = i + 1;                                                                    \
            else                                                                                   \
                gf_high = i;                                                                       \
        }                                                                                          \
        gf_low;                                                                                    \
    })

/*
 * Prints the text as indented lines of at most `width` columns, and a final newline. The first line
 * begins with the label, which is padded to `indent` columns.
 */
void gf_wrap(const char *label, const char *text, unsigned indent, unsigned width);

/* Returns the number of columns of the terminal, at most 100; 80 if standard output is no terminal. */
unsigned gf_wrap_width(void);

/*
 * Prints the word, in quotes if a shell would change it. Characters that gf_plain_text would replace
 * are escaped in the form $'...', so that the terminal does not interpret them.
 */
void gf_shell_word(FILE *out, const char *word);

/*
 * Keeps this process alive if another process truncates a mapped file: a handler of SIGBUS maps
 * zero pages where the file no longer has any.
 */
void gf_bus_error_survive(void);

/*
 * Calls print in a child process, and copies what it prints. The child reads files of another
 * process, and may hang in the kernel. Returns 0, an errno, or ETIMEDOUT if the child printed nothing
 * for silence_ms, or did not end.
 */
int gf_print_apart(void (*print)(const void *closure), const void *closure, int silence_ms);
