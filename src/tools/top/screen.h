/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal and columns. */
#pragma once

#include "base/base.h"

#include <stdio.h>

/*
 * If standard input and output are a terminal, reads single keys and hides the cursor until
 * gf_screen_close or a signal that ends the command. Returns whether they are a terminal.
 */
bool gf_screen_open(void);
void gf_screen_close(void);

/* Clears the screen, and moves the cursor to the top left. */
void gf_screen_clear(void);

/* Returns the number of columns of the terminal; 0 if standard output is not a terminal. */
unsigned gf_screen_width(void);

/*
 * Waits for wait_ms, or until the user presses a key or the terminal changes its size. Returns
 * false if the key is q, or at the end of input.
 */
bool gf_screen_wait(unsigned wait_ms);

/* The columns of `gpufeed top`. A narrow terminal shows only the most important of them. */

#define GF_COLUMN_TEXT 32

enum gf_column {
    gf_column_pid,
    gf_column_rank,
    gf_column_ran,
    gf_column_steps,
    gf_column_idle,
    gf_column_why_idle,
    gf_column_to_gpu,
    gf_column_from_gpu,
    gf_column_stalled,
    gf_column_most_time,
    gf_column_bound,
    gf_column_count,
};

/* The texts of a row, one for each column. */
struct gf_cells {
    char text[gf_column_count][GF_COLUMN_TEXT];
};

/* width: that of the terminal; 0: unlimited, so that all columns are shown. */
void gf_columns_print_header(FILE *out, unsigned width);

/* Prints a row, with the program after the columns that are shown. */
void gf_columns_print(FILE *out, const struct gf_cells *cells, const char *program, unsigned width);

/* Whether there is space for the program's GPU and its whole path. */
bool gf_columns_fit_gpu(unsigned width);

/* Prints a line, cut to `width` bytes, and so at most to `width` columns, unless that is 0. */
void gf_columns_print_line(FILE *out, char *line, unsigned width);
