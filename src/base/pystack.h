/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/* Reads the memory of the process that runs Python. */
struct gf_pystack_memory {
    /* Copies up to `size` bytes from `address` to ret; returns the number of bytes copied. */
    size_t (*read)(void *closure, uintptr_t address, void *ret, size_t size);
    void *closure;
};

/*
 * Maps an offset in Python's bytecode to a source line, in each of CPython's three table formats.
 */

struct gf_pystack_table {
    const struct gf_pystack_memory *memory;
    uintptr_t data; /* address of the table's first byte in `memory` */
    size_t size;
    int first_line; /* first line of the code object */
};

/*
 * Sets *ret to the source line of the instruction at offset `at`, in bytes, of the bytecode.
 * Returns false if the table has no line for this offset, or cannot be read.
 */
typedef bool gf_pystack_line_fn(const struct gf_pystack_table *table, size_t at, int *ret);

gf_pystack_line_fn gf_pystack_line_lnotab;    /* up to 3.9: co_lnotab */
gf_pystack_line_fn gf_pystack_line_ranges;    /* 3.10: co_linetable, pairs */
gf_pystack_line_fn gf_pystack_line_locations; /* from 3.11: co_linetable, variable-length entries */

/*
 * Reads the Python frames of a thread from CPython's structures. A callback reads the memory, which
 * belongs to this process or to another one. No Python code runs, no reference count changes, and
 * no object is created. All reads are checked, so unexpected structures yield no frame, but cannot
 * cause a crash. If the thread runs during the call, frames may be missing or stale.
 *
 * The functions allocate nothing, take no lock, and may be called on any thread. They keep errno if
 * the callback keeps it.
 */

struct gf_pystack_frame {
    char file[256]; /* UTF-8; only the end of a path that is longer */
    char function[96];
    int line;
    int first_line; /* of the function */
    unsigned inner; /* number of frames inside this one that could not be read */
};

struct gf_pystack_layout;

/* How to read the structures of a process that runs Python. */
struct gf_pystack {
    const struct gf_pystack_layout *layout; /* not NULL */
    const struct gf_pystack_memory *memory;
};

/*
 * Returns the layout of the interpreter whose Py_GetVersion() returns `version`. Versions 3.9 to
 * 3.15 are supported. Returns NULL for other versions, and for free-threaded builds, whose object
 * headers differ.
 */
const struct gf_pystack_layout *gf_pystack_layout(const char *version);

/*
 * Whether the thread state at the address thread_state belongs to the thread whose pthread_self()
 * is `thread`. The address may be stale. Returns false for Python 3.12 and later: there a thread
 * gets its own state from the interpreter, and needs no such check.
 */
bool gf_pystack_is_of_thread(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t thread);

/*
 * Stores the innermost `cap` frames in ret, innermost first, and returns their number. thread_state
 * is the address of the thread's PyThreadState. ret_whole, unless NULL, becomes whether there are no
 * further frames.
 */
size_t gf_pystack_frames(const struct gf_pystack *r, uintptr_t thread_state,
                         struct gf_pystack_frame *ret, size_t cap, bool *ret_whole);

/*
 * Returns the index of the frame whose line stands for the thread: the innermost one in a file of the
 * program, or else in code that was typed or passed as text, such as `python -c`. Without any, the
 * outermost one in a package, or else the outermost one; but the innermost one if the frames are not
 * whole. count: not 0.
 */
size_t gf_pystack_own_frame(const struct gf_pystack_frame *frames, size_t count, bool whole);

/*
 * Reads the name of the threading.Thread that runs this thread state, as UTF-8. Returns false if the
 * thread has none, or for versions other than 3.11 to 3.13.
 */
bool gf_pystack_thread_name(const struct gf_pystack *r, uintptr_t thread_state, char *ret,
                            size_t size);

/*
 * Whether the thread waits in get() of an empty queue.SimpleQueue, which is a function of C without a
 * frame. futex: the one that the thread waits for. False for versions other than 3.11 to 3.13.
 */
bool gf_pystack_is_in_queue(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t futex);

/*
 * Whether the thread is inside of a `with` statement of the lock whose semaphore is at the address
 * `futex`, and so holds the lock. If so, *ret is the frame of this statement, which is one of the
 * innermost 24 or more. False for a lock that is held in another way, and for versions other than
 * 3.11 to 3.13.
 */
bool gf_pystack_holder(const struct gf_pystack *r, uintptr_t thread_state, uintptr_t futex,
                       struct gf_pystack_frame *ret);

/*
 * Whether a thread collects garbage in the interpreter of this thread state. Only the thread that
 * holds Python's lock can. False for Python 3.14 and later, whose members differ.
 */
bool gf_pystack_is_collecting(const struct gf_pystack *r, uintptr_t thread_state);
