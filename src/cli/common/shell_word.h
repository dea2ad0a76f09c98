/* SPDX-License-Identifier: Apache-2.0 */
/* Writes words so that a shell reads them back. */
#ifndef GF_CLI_COMMON_SHELL_WORD_H
#define GF_CLI_COMMON_SHELL_WORD_H

#include <stdio.h>

/*
 * Prints the word, in quotes if a shell would change it. Control characters are escaped in the form
 * $'...', so that the terminal does not interpret them.
 */
void gf_shell_word(FILE *out, const char *word);

#endif
