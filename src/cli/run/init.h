/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed run --init`: this process stays, as an init of a container. */
#ifndef GF_CLI_RUN_INIT_H
#define GF_CLI_RUN_INIT_H

#include "base/base.h"

/*
 * Forks. In the child, it returns true: the caller executes the program there. The child has a
 * process group of its own, which is the terminal's foreground group if the parent's was, and the
 * signal mask and handlers of the start.
 *
 * The parent forwards every signal that it gets to the child, and waits for all children, also
 * orphans that the kernel hands to it. After the child has ended it returns false, and *ret_code is
 * the child's exit code, or 128 and the number of the signal that ended it.
 *
 * The calling thread must be the only one. If the fork fails, the result is as in the child: the
 * program runs without an init, and one line says so.
 */
bool gf_init_fork(int *ret_code);

#endif
