/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal of `gpufeed top`: reads single keys, and redraws the screen in place. */
#ifndef GF_CLI_TOP_SCREEN_H
#define GF_CLI_TOP_SCREEN_H

#include "base/base.h"

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

#endif
