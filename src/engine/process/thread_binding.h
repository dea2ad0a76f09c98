/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the masks and memory policies of threads according to the placement in force. All functions
 * keep errno and take no lock.
 */
#pragma once

#include "base/cpus.h"
#include "host/bind.h"
#include "host/facts.h"
#include "host/locality.h"

/*
 * Sets `own` and `all_own` of facts. A thread has a mask of its own if the program set its mask, or
 * if its mask is neither the start mask nor a mask that the library has set.
 */
void gf_thread_binding_read_own(struct gf_facts *facts);

/*
 * Computes the union of the present masks of all threads of the program; empty if they cannot be
 * read.
 */
void gf_thread_binding_read_program(struct gf_cpus *ret);

/*
 * Sets the mask `to` for each thread of this process whose mask is `from`. descendants: also for
 * threads of child processes. Adds the results to *ret.
 */
void gf_thread_binding_move(const struct gf_cpus *from, const struct gf_cpus *to, bool descendants,
                            struct gf_bind_result *ret);

/*
 * Applies the policy and the mask of the placement in force to the calling thread, once for each
 * placement. submits: true if the thread submits work to the GPU, false if it has just started. If
 * only threads that submit work are bound, a new thread that inherited such a binding gets the
 * start mask.
 */
void gf_thread_binding_settle(bool submits);

/*
 * Reads the calling thread's memory policy, with mode flags. Returns false if the thread has no
 * policy or one that the library has set, or if the kernel refuses the query.
 */
bool gf_thread_binding_user_policy(int *ret_mode, struct gf_nodes *ret_nodes);

/* Removes the calling thread's memory policy if it is the policy in the hint of a bound process. */
void gf_thread_binding_drop_inherited(void);

/*
 * Called before and after the calling thread, or a child of its vfork, starts another program. If
 * only threads that submit work are bound, program_begin undoes the binding and the memory policy of
 * the calling thread, and program_end binds the thread again. program_begin returns whether it
 * changed the mask. A forked child calls it, too. Async-signal-safe.
 */
bool gf_thread_binding_program_begin(void);
void gf_thread_binding_program_end(void);

/*
 * Returns the number of threads that still have the policy of an earlier placement. A thread can
 * change only its own policy. It does so at its next call that reaches the engine.
 */
unsigned gf_thread_binding_count_kept(void);

struct gf_placement;

/* Passes the placement to child processes, as a hint (host/hint.h). */
void gf_placement_publish(const struct gf_placement *placement);

/* Binds the threads that have restored the start mask. */
void gf_thread_binding_rescan(void);

/*
 * Carries out a step of the starvation guard. to_start: false: widens the mask to the socket; true:
 * restores the start mask permanently.
 */
void gf_thread_binding_widen(bool to_start);
