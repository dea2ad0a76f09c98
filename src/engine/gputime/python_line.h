/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of Python that a thread of this process, or of a child process, executes. The thread may
 * run during the reading. So its frames are read twice, and are accepted only if both readings are
 * equal. The reading takes no lock of the interpreter, and runs none of its code. Allocates
 * nothing; used on the sampler's thread only.
 */
#ifndef GF_ENGINE_GPUTIME_PYTHON_LINE_H
#define GF_ENGINE_GPUTIME_PYTHON_LINE_H

#include "abi/python_api.h"

#include <sys/types.h>

struct gf_python_line {
    char file[128]; /* a longer path is cut at its beginning */
    char function[64];
    int line; /* 0: not known */
};

struct gf_python_place {
    /*
     * The innermost line of the program's own code, which is outside the standard library and
     * site-packages. Without such a line, the innermost line of all.
     */
    struct gf_python_line line;
    bool in_queue; /* the thread waits for data in a loader, a queue or a pipe */
};

/*
 * Finds the process's interpreter by `find`. False: its frames cannot be read. May be called again.
 */
bool gf_python_line_open(bool (*find)(struct gf_python *ret));

/*
 * Reads the place of a thread. state: the address of its PyThreadState. pid: its process; 0: this
 * process.
 */
bool gf_python_line_read(pid_t pid, uintptr_t state, struct gf_python_place *ret);

/* Whether the file belongs to Python or to an installed package. */
bool gf_python_line_is_library(const char *file);

/*
 * Returns the thread state that holds Python's lock; 0: unknown. *ret_is_lock: the futex belongs to
 * that lock, which is a part of _PyRuntime.
 */
uintptr_t gf_python_line_lock_holder(uintptr_t futex, bool *ret_is_lock);

#endif
