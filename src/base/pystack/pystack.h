/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python frames of a thread, read from CPython's structures. A callback reads the memory, of
 * this process or of another. No Python code runs, no reference count changes, and no object is
 * created. Each read is checked, so an unexpected structure yields no frame rather than a crash.
 * The frames are exact if the thread does not run during the call; otherwise some may be missing or
 * stale.
 *
 * Nothing here allocates or locks. errno is kept if the callback keeps it. Any thread.
 */
#ifndef GF_BASE_PYSTACK_PYSTACK_H
#define GF_BASE_PYSTACK_PYSTACK_H

#include "base/base.h"
#include "base/pystack/pystack_memory.h"

struct gf_pystack_frame {
    char file[256]; /* UTF-8; only the end of a longer path */
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
 * Fills in the frames, innermost first, and returns their number. thread_state is the address of
 * the thread's PyThreadState.
 */
size_t gf_pystack_frames(const struct gf_pystack_layout *layout,
                         const struct gf_pystack_memory *memory, uintptr_t thread_state,
                         struct gf_pystack_frame *ret, size_t cap);

#endif
