/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs code with a descriptor table of its own, in which the library can open files. In the
 * program's table, the program could replace a descriptor of the library by dup2, and the library
 * would then close the program's file.
 */
#ifndef GF_OS_OWN_TABLE_H
#define GF_OS_OWN_TABLE_H

#include "base/base.h"

/*
 * Calls work(closure) on a new thread with its own descriptor table, and waits until it ends. The
 * thread shares the caller's thread-local variables, so work must not allocate, and must not depend
 * on the thread's id, mask or policy. It has 512 KiB of stack. If the process has one thread, or
 * the caller already has its own table, work runs on the calling thread.
 *
 * Returns false if work did not run, because the kernel refuses a thread, or the process is sealed
 * (os/permit.h). Takes 0.1 ms on a busy machine. Any thread, inside malloc, in a signal handler, in
 * a forked child. Keeps errno. Asynchronous signals are blocked during the call.
 */
bool gf_own_table_run(void (*work)(void *closure), void *closure);

/*
 * Whether the calling thread may open files: it runs in gf_own_table_run, called
 * gf_own_table_leave, or is the process's only thread.
 */
bool gf_own_table_is_own(void);

/* Whether the calling thread was created by gf_own_table_run for one call. */
bool gf_own_table_on_short_thread(void);

/*
 * Gives the calling thread its own table until it ends, with 0, 1 and 2 as /dev/null. For threads
 * of the library that neither call the driver nor print. False if the kernel cannot do this. errno
 * may change.
 */
bool gf_own_table_leave(void);

/*
 * Makes the calling thread the server of one other thread, the client: it does the work of the
 * client's calls of gf_own_table_run, so that they need no new threads. Calls begin first, and
 * never returns. Returns false if the calling thread cannot leave the program's table.
 */
bool gf_own_table_serve(void (*begin)(void));
/* Makes the calling thread the client. Call it once, after the serving thread was started. */
void gf_own_table_use_server(void);

#endif
