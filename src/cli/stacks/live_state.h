/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a running process's GPU states, hooked calls and copies, from the library's report. */
#ifndef GF_CLI_STACKS_LIVE_STATE_H
#define GF_CLI_STACKS_LIVE_STATE_H

#include <sys/types.h>

/*
 * Prints the state of a process, if the engine is loaded in it. With GPUFEED_LIVE=on, waits up to
 * two seconds for newer figures, so that the state includes the changes of the last second.
 */
void gf_live_state_print(pid_t pid);

#endif
