/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks and memory policies of threads, by the placement in force. All functions keep errno and
 * take no lock.
 */
#ifndef GF_ENGINE_PROCESS_THREAD_BINDING_H
#define GF_ENGINE_PROCESS_THREAD_BINDING_H

#include "base/cpus.h"
#include "engine/machine/facts.h"
#include "engine/machine/locality.h"
#include "engine/place/bind.h"

/* The class of a thread (program, driver or library), as the preload library tracks it. */
enum gf_mask_owner gf_thread_binding_owner(pid_t tid);

/*
 * Fills `own` and `all_own` of facts. A thread has a mask of its own if the program set the
 * thread's mask, or if the mask is neither the start mask nor the library's.
 */
void gf_thread_binding_read_own(struct gf_facts *facts);

/* The CPUs that any thread of the program may use now; empty if they cannot be read. */
void gf_thread_binding_read_program(struct gf_cpus *ret);

/*
 * Sets the mask `to` for each thread of this process whose mask is `from`; with descendants also
 * for threads of child processes. Adds to *ret.
 */
void gf_thread_binding_move(const struct gf_cpus *from, const struct gf_cpus *to, bool descendants,
                            struct gf_bind_result *ret);

/*
 * Applies the policy and the mask of the placement in force to the calling thread, once for each
 * placement. submits: the thread submits work to the GPU; false: it has just started. If only
 * threads that submit work are bound, a thread that one of them started gets the start mask.
 */
void gf_thread_binding_settle(bool submits);

/*
 * Reads the calling thread's memory policy, with mode flags. False: the thread has no policy or the
 * library's, or the kernel refuses the query.
 */
bool gf_thread_binding_user_policy(int *ret_mode, struct gf_nodes *ret_nodes);

/*
 * Removes the calling thread's memory policy if it was inherited from a process that bound itself.
 */
void gf_thread_binding_drop_inherited(void);

/*
 * In a forked child: if only threads that submit work are bound, the child gets the start mask and
 * loses the library's memory policy. Async-signal-safe.
 */
void gf_thread_binding_release_child(void);

/*
 * Around the start of another program by the calling thread, or by a child of vfork: if only
 * threads that submit work are bound, begin undoes the thread's binding, and end binds it again.
 * begin returns whether it changed the mask. Async-signal-safe.
 */
bool gf_thread_binding_program_begin(void);
void gf_thread_binding_program_end(void);

/*
 * The number of threads that have a policy of an earlier placement. A thread can change only its
 * own policy, which it does at its next call that reaches the engine.
 */
unsigned gf_thread_binding_count_kept(void);

/* Binds threads that restored the start mask. */
void gf_thread_binding_rescan(void);

/*
 * Carries out a step of the starvation guard: widens to the socket, or permanently to the start
 * mask.
 */
void gf_thread_binding_widen(bool to_start);

#endif
