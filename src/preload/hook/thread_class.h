/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of each thread, in a hash table of fixed size, keyed by thread id, without locks or
 * allocation. A thread without an entry is an ordinary thread of the program. Once the table has
 * overflowed, a thread without an entry counts as one whose affinity the program set, so it is
 * never bound. errno is kept. Any thread, even in a signal handler.
 */
#ifndef GF_PRELOAD_HOOK_THREAD_CLASS_H
#define GF_PRELOAD_HOOK_THREAD_CLASS_H

#include "abi/engine_api.h"

/* gf_preload.thread_class */
enum gf_thread_class gf_thread_class_get(pid_t tid);

/* Records tid's class. gf_thread_program removes the entry, as the id belongs to a new thread. */
void gf_thread_class_set(pid_t tid, enum gf_thread_class class);

/* Whether any thread ever had an entry. If not, no entry has to be removed. */
bool gf_thread_class_used(void);

/*
 * The program changed tid's affinity mask from `before` to `after`. From now on the thread is not
 * bound, until its mask is again the one before the first change: a library may save, set and
 * restore it. Threads of the driver and of this library keep their class.
 */
void gf_thread_class_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after);

#endif
