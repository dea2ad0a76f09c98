/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed run --init`: this process stays as the init of a container. */
#pragma once

#include "base/base.h"

/*
 * Forks. Returns true in the child, where the caller executes the program. The child has the
 * original signal mask and actions. It has a new process group, which becomes the terminal's
 * foreground group.
 *
 * The parent forwards each signal to the child, and reaps all children and orphans. After the child
 * has ended, the function returns false in the parent; *ret_code is the child's exit code, or 128
 * plus the number of the signal that ended the child.
 *
 * The process must have one thread. If the fork fails, prints an error and returns true: the program
 * runs without an init.
 */
bool gf_init_fork(int *ret_code);
