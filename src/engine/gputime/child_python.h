/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the PyThreadState of the main thread of a child process. In a forked child, it is the state
 * of the thread that forked. A child that multiprocessing started by `spawn` or `forkserver` has
 * executed the interpreter's file again, so its addresses differ. In such a child, the interpreter
 * is found by its file in the list of mappings. The offsets of the members that lead to the thread
 * state are found in this process, which runs the same interpreter. So they need no table of
 * CPython's versions. Used on the sampler's thread only. Allocates nothing.
 */
#ifndef GF_ENGINE_GPUTIME_CHILD_PYTHON_H
#define GF_ENGINE_GPUTIME_CHILD_PYTHON_H

#include "base/base.h"

#include <sys/types.h>

/* The result of a search. All zero: no search has found the child's thread state. */
struct gf_child_python {
    uintptr_t state;       /* the main thread's state, an address in the child */
    uintptr_t interpreter; /* the interpreter's state, to which `state` points */
};

/*
 * Returns the child's thread state if it is the parent's, or if a search found it; 0 if it is
 * unknown. parent_state: the thread state of the thread that started the child. Takes one or two
 * system calls.
 */
uintptr_t gf_child_python_state(struct gf_child_python *child, pid_t pid, uintptr_t parent_state);

/*
 * Searches for the child's thread state. Returns true if it is found. Reads the child's list of
 * mappings, which takes about 1 ms of CPU time if there are a thousand. Called in gf_measured_run.
 */
bool gf_child_python_search(struct gf_child_python *child, pid_t pid, uintptr_t parent_state);

#endif
