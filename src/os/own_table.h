/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files where the program cannot see the descriptors. A program may choose a number and call
 * dup2. If the library had just opened a file under that number, the library would then close the
 * program's file. So files are opened only by code that runs here, with its own descriptor table.
 */
#ifndef GF_OS_OWN_TABLE_H
#define GF_OS_OWN_TABLE_H

#include "base/base.h"

/*
 * Calls work(closure) on a new thread with its own descriptor table, and waits for its end. The new
 * thread uses the caller's thread-local variables, so work must not allocate, and must not depend
 * on the thread's id, mask or policy. It has 512 KiB of stack. In a process with one thread, and
 * inside another such call, work runs on the caller.
 *
 * Returns false if work did not run: the kernel refuses another thread, or the process is sealed
 * (os/permit.h). Takes 0.1 ms on a busy machine. Any thread, inside malloc, in a signal handler, in
 * a forked child. Keeps errno. Blocks asynchronous signals meanwhile.
 */
bool gf_own_table_run(void (*work)(void *closure), void *closure);

/*
 * Whether the calling thread may open files: it runs in gf_own_table_run, has left the program's
 * table, or is the process's only thread.
 */
bool gf_own_table_is_own(void);

/* Whether the calling thread is a short one, which ends when gf_own_table_run returns. */
bool gf_own_table_on_short_thread(void);

/*
 * Gives the calling thread its own table for life, in which 0, 1 and 2 are /dev/null. For threads
 * of the library that neither call the driver nor print. False if the kernel cannot. errno may
 * change.
 */
bool gf_own_table_leave(void);

/*
 * Runs the calls of one other thread, which called gf_own_table_use_server, and never returns. A
 * thread that reads files all the time would otherwise need a new thread for each call. False if
 * the calling thread cannot leave the table.
 */
bool gf_own_table_serve(void);
/* Call it once, on the thread that makes the calls, after starting the thread that serves. */
void gf_own_table_use_server(void);

#endif
