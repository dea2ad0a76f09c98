/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on helper threads in a program that handles page faults itself. For example, a garbage
 * collector protects pages, and its SIGSEGV handler unprotects the page that a thread of the
 * program touches. A helper blocks all signals, so a fault on a helper would kill the process. With
 * these functions the kernel accesses the program's memory, and returns an error where an access by
 * the helper would raise a signal. The thread that called the copy then accesses that memory
 * itself, as it would without the library.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_GUARDED_COPY_H
#define GF_ENGINE_TRANSFER_MEMORY_GUARDED_COPY_H

#include "base/base.h"

/*
 * Whether the program has a handler for SIGSEGV or SIGBUS now. Makes two system calls. May be
 * called on any thread.
 */
bool gf_faults_are_handled(void);

/*
 * Whether the kernel, and any seccomp filter, allow the functions below. May be called on any
 * thread.
 */
bool gf_guarded_copy_is_possible(void);

/*
 * Copy between memory of the program and memory of the library. The function `copy` writes the
 * library's memory. False: some bytes of the program's memory cannot be accessed; bytes before them
 * may have been copied. May be called on any thread.
 */
bool gf_guarded_read(char *to, const char *program, size_t bytes,
                     void (*copy)(char *to, const char *from, size_t bytes));
bool gf_guarded_write(char *program, const char *from, size_t bytes);

/*
 * Accesses each page of the range on the calling thread, as a copy from or to the range would, so
 * that the program's handler runs. Changes no byte.
 */
void gf_guarded_touch(char *program, size_t bytes, bool write);

#endif
