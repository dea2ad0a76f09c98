/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the calling thread's Python frames. The GIL is not needed for this, because only the thread
 * itself changes its frames.
 */
#pragma once

#include "abi/trace_api.h"
#include "base/pystack.h"

#define GF_PYTHON_FRAMES 6

/*
 * Searches the loaded objects for an interpreter. May be called again. Takes the loader's locks, so
 * do not call it inside malloc if the program may have threads.
 */
void gf_python_open(void);

/*
 * Fills in the frames, innermost first, and returns their number. Returns 0 if the thread does not
 * belong to a known interpreter. Allocates nothing. May be called on any thread, also inside
 * malloc.
 */
size_t gf_python_frames(struct gf_pystack_frame *ret, size_t cap);

/*
 * Returns the calling thread's PyThreadState; 0 if the thread has none, or if no interpreter is
 * known. May be called on any thread.
 */
uintptr_t gf_python_thread_state(void);

/*
 * Describes the interpreter that gf_python_open found. Returns false if it found none, or if that
 * interpreter was unloaded. May be called on any thread.
 */
bool gf_python_describe(struct gf_python *ret);
