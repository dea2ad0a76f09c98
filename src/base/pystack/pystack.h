/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the Python frames of a thread from CPython's structures. A callback reads the memory, in
 * this process or in another. No Python code runs, no reference count changes, and no object is
 * created. All reads are checked, so unexpected structures yield no frame, and no crash. If the
 * thread runs during the call, frames may be missing or stale.
 *
 * Nothing here allocates or locks. The functions keep errno if the callback does. Any thread.
 */
#ifndef GF_BASE_PYSTACK_PYSTACK_H
#define GF_BASE_PYSTACK_PYSTACK_H

#include "base/base.h"
#include "base/pystack/pystack_memory.h"

struct gf_pystack_frame {
    char file[256]; /* UTF-8; of a longer path, only the end */
    char function[96];
    int line;
};

struct gf_pystack_layout;

/*
 * The layout of the interpreter whose Py_GetVersion() returns `version`. NULL if that version is
 * not supported (3.9 to 3.13 are), or if it is a free-threaded build, whose object headers differ.
 */
const struct gf_pystack_layout *gf_pystack_layout(const char *version);

/*
 * Whether a thread state belongs to the thread whose pthread_self() is given. Returns false for
 * Python 3.12 and later, where a thread gets its own state from the interpreter. The address may be
 * stale.
 */
bool gf_pystack_is_of_thread(const struct gf_pystack_layout *layout,
                             const struct gf_pystack_memory *memory, uintptr_t thread_state,
                             uintptr_t thread);

/*
 * Fills in the frames, innermost first, and returns their number. thread_state is the address of
 * the thread's PyThreadState.
 */
size_t gf_pystack_frames(const struct gf_pystack_layout *layout,
                         const struct gf_pystack_memory *memory, uintptr_t thread_state,
                         struct gf_pystack_frame *ret, size_t cap);

#endif
