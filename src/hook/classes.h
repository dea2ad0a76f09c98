/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads are not ordinary ones of the program: a table of fixed size, without locks or
 * allocation, keyed by thread id. A thread that does not stand in it is the program's; once a
 * thread found no room, those that do not stand in it count as having set their own affinity, so
 * that they are left alone. errno is kept; any thread, also in a signal handler.
 */
#ifndef GF_HOOK_CLASSES_H
#define GF_HOOK_CLASSES_H

#include "hook/engine_api.h"

/* gf_door.thread_class */
enum gf_thread_class gf_classes_get(pid_t tid);

/* gf_thread_program forgets: a thread id has a new thread. */
void gf_classes_set(pid_t tid, enum gf_thread_class class);

/* Whether any thread ever stood in it: while not, there is nothing to forget. */
bool gf_classes_used(void);

/*
 * The program set tid's affinity: the mask was `before` and is `after`. The thread is left alone
 * from now on, until its mask is again what it was before it was first set (a library that saves,
 * sets and restores). Threads of the driver's and ours keep their class.
 */
void gf_classes_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after);

#endif
