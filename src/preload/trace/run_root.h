/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/* The start of messages on standard error, in a process that may print. */

/*
 * Sets the level that GPUFEED_VERBOSE names, the file that was standard error at the start, and the
 * rank, which each line contains if there are several.
 */
void gf_messages_start(void);

/*
 * The process that `gpufeed run` started. If it exits with status 0, neither it nor a forked child
 * used a GPU, it started no other program, and no large child of it has ended, then it prints a line
 * about that. Every other process, and so each process under a bare preload, prints nothing. May be
 * called on any thread; no function allocates.
 */

/*
 * Called once, at the heap's start, if this process is the one that `gpufeed run` started. Takes
 * the lock of libc's list of exit handlers.
 */
void gf_run_root_open(void);

/*
 * Notes that another program is being started, which may use a GPU. Called in forked children too,
 * and in children of vfork.
 */
void gf_run_root_started_program(void);

/* Notes the result of cuInit in this process, or in a forked child. */
void gf_run_root_initialised(int result);

/* Sets a function that returns whether the process has had a context. It is called at exit. */
void gf_run_root_ask(bool (*has_context)(void));
