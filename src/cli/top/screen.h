/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal of `gpufeed top`: keys without Return, and a picture that is redrawn in place. */
#ifndef GF_CLI_TOP_SCREEN_H
#define GF_CLI_TOP_SCREEN_H

#include "base/base.h"

/*
 * Whether standard input and output are a terminal. If so, takes single keys and hides the cursor
 * until gf_screen_close, which also runs when a signal ends the command.
 */
bool gf_screen_open(void);
void gf_screen_close(void);

/* Moves to the top left and clears the screen. */
void gf_screen_clear(void);

/* Columns of standard output's terminal; 0 if it is not a terminal. */
unsigned gf_screen_width(void);

/*
 * Waits for wait_ms, or until the user presses q or the terminal changes its size. False: the user
 * wants to quit.
 */
bool gf_screen_wait(unsigned wait_ms);

#endif
