/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "preload/heap/family.h"

/*
 * The program's own allocator: for each function, the next definition after this object in search
 * order, which the program would call without the library.
 */

/*
 * A field is NULL if no other object defines the function. The fields are not _Atomic, so that one
 * instruction reads a field and jumps. All stores are atomic.
 */
extern struct gf_family gf_family_passthrough __attribute__((visibility("hidden")));

/*
 * The same for glibc's second names, such as __libc_malloc: the next definition of the same name.
 * The field of a name that no other object defines has the function of the first name.
 */
extern struct gf_libc_family gf_libc_names_passthrough __attribute__((visibility("hidden")));

/* Fills the tables. Called once, before the mode is published, so that every thread sees them. */
void gf_passthrough_resolve(void);

/*
 * Times calls of the program's own allocator for blocks of at least 1 MiB. Such calls are few and
 * may be slow. A call of free is timed if the block is in a table of large blocks. It is not known
 * which part of a call's time was spent on waits for locks, system calls and so on. Calls for
 * smaller blocks are not timed, because reading the clock takes several times as long as the call.
 */

/* Starts timing. This is gf_heap_ops.time_passthrough. Idempotent. May be called on any thread. */
void gf_timed_passthrough_start(void);
