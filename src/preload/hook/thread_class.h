/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with the class of each thread, by thread id. The table has a fixed size, and needs
 * no lock and no allocation. A thread without an entry is an ordinary thread of the program. Once
 * the table has overflowed, threads without an entry count as gf_thread_self_set, so they are not
 * bound. The functions keep errno. They may be called on any thread, also in a signal handler.
 */
#ifndef GF_PRELOAD_HOOK_THREAD_CLASS_H
#define GF_PRELOAD_HOOK_THREAD_CLASS_H

#include "abi/engine_api.h"

/* gf_preload.thread_class */
enum gf_thread_class gf_thread_class_get(pid_t tid);

/*
 * Records the class of a new thread. If the class is gf_thread_program, removes the entry that an
 * ended thread with the same id may have left.
 */
void gf_thread_class_set(pid_t tid, enum gf_thread_class class);

/* Whether any thread ever had an entry. */
bool gf_thread_class_used(void);

/*
 * Records that the program changed tid's mask from `before` to `after`. From then on the library
 * does not bind the thread. The library may bind the thread again after the program has restored
 * the mask from before the first change, because some libraries change a mask only for a while.
 * Threads of the driver and of this library keep their class.
 */
void gf_thread_class_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after);

#endif
