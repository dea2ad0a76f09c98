/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's line of Python. */
#pragma once

#include "abi/trace_api.h"
#include "base/base.h"
#include "base/pystack.h"

#define GF_PYTHON_PATH 480u

/*
 * Copies bytes of a child process, or of this process (pid 0), up to the first unreadable byte.
 * Returns the number of bytes copied. Keeps errno.
 */
size_t gf_process_read_some(pid_t pid, uintptr_t address, void *ret, size_t size);

/* Copies `size` bytes. Returns true if all of them were readable. */
static inline bool gf_process_read(pid_t pid, uintptr_t address, void *ret, size_t size)
{
    return gf_process_read_some(pid, address, ret, size) == size;
}

/*
 * Finds the line of Python that a thread of this process, or of a child process, executes. The
 * thread may run while its frames are read. So they are read twice, and only the outer frames that
 * both readings share are accepted. Reading takes no lock of the interpreter, and runs none of its
 * code. Allocates nothing. Used on the sampler's thread only.
 */

struct gf_python_line {
    char file[128]; /* only the end of a path that is longer */
    char function[64];
    int line; /* 0: not known */
};

struct gf_python_place {
    /*
     * The innermost line that is in the program's own code: outside the standard library and
     * site-packages. If no frame is in the program's own code, the innermost line of all frames.
     */
    struct gf_python_line line;
    /*
     * The frames inside of this line, innermost first, until the next reading. All are in Python's
     * library or in packages, unless the thread has no line in the program's own code.
     */
    const struct gf_pystack_frame *frames;
    size_t count;
    bool collects; /* garbage is being collected */
};

/*
 * Finds the process's interpreter by calling `find`. Returns false if its frames cannot be read; a
 * later call may succeed.
 */
bool gf_python_line_open(bool (*find)(struct gf_python *ret));

/*
 * Reads which line a thread executes. state: the address of the thread's PyThreadState. pid: the
 * thread's process; 0: this process. ret_path, unless NULL, becomes the functions of all frames,
 * the outermost first: "train.py:<module>;train.py:step"; "" unless both readings have the same
 * frames. Of a path that is too long, "..." replaces the outermost frames. Returns false if the
 * frames cannot be read.
 */
bool gf_python_line_read(pid_t pid, uintptr_t state, struct gf_python_place *ret,
                         char ret_path[GF_PYTHON_PATH]);

/* Whether the thread waits in get() of a queue.SimpleQueue, for this futex. */
bool gf_python_line_is_in_queue(pid_t pid, uintptr_t state, uintptr_t futex);

/*
 * Returns the address of the interpreter's _PyRuntime, and sets *ret_size to its size. Returns 0 if
 * no interpreter is open.
 */
uintptr_t gf_python_line_runtime(size_t *ret_size);

/*
 * Sets *ret_is_lock to whether the futex belongs to Python's lock, which is a part of _PyRuntime.
 * If so, returns the address of the thread state that holds the lock; 0: unknown.
 */
uintptr_t gf_python_line_lock_holder(uintptr_t futex, bool *ret_is_lock);
