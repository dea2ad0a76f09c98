/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by helper threads in a program that handles faults itself. For example, a garbage
 * collector protects pages, and its SIGSEGV handler unprotects the page that a thread of the
 * program touches. A helper blocks all signals, so a fault on a helper would kill the process.
 * These functions let the kernel touch the program's memory, and the kernel returns an error
 * instead of raising a signal. The thread that called the copy then touches that memory itself, as
 * it would without the library.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_GUARDED_COPY_H
#define GF_ENGINE_TRANSFER_MEMORY_GUARDED_COPY_H

#include "base/base.h"

/* Whether the program has a handler for SIGSEGV or SIGBUS now. Two system calls. Any thread. */
bool gf_faults_are_handled(void);

/* Whether the kernel and its filters allow the functions below. Any thread. */
bool gf_guarded_copy_is_possible(void);

/*
 * Copy between the program's memory and the library's. `copy` writes the library's memory. False:
 * part of the program's memory cannot be touched; a part before it may have been copied. Any
 * thread.
 */
bool gf_guarded_read(char *to, const char *program, size_t bytes,
                     void (*copy)(char *to, const char *from, size_t bytes));
bool gf_guarded_write(char *program, const char *from, size_t bytes);

#endif
