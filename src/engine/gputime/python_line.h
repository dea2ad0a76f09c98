/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of Python that a thread is at, of this process or of a child of it. The thread may run
 * meanwhile: its frames are read twice, and are accepted only if both readings are equal. No lock of
 * the interpreter is taken, and no code of it runs. Allocates nothing; the sampler's thread only.
 */
#ifndef GF_ENGINE_GPUTIME_PYTHON_LINE_H
#define GF_ENGINE_GPUTIME_PYTHON_LINE_H

#include "abi/python_api.h"

#include <sys/types.h>

struct gf_python_line {
    char file[128]; /* only the end of a longer path */
    char function[64];
    int line; /* 0: not known */
};

struct gf_python_place {
    /* The innermost line outside the standard library and site-packages; else the innermost. */
    struct gf_python_line line;
    bool in_queue; /* waits for data in a DataLoader, a queue or a pipe of multiprocessing */
};

/* The process's interpreter; false: its frames cannot be read. May be called again. */
bool gf_python_line_open(bool (*find)(struct gf_python *ret));

/* state: the address of the thread's PyThreadState. pid: of the process; 0: this one. */
bool gf_python_line_read(pid_t pid, uintptr_t state, struct gf_python_place *ret);

/* Whether the file belongs to Python or to an installed package. */
bool gf_python_line_is_library(const char *file);

/*
 * The thread state that holds Python's lock, if a thread that sleeps on this futex waits for that
 * lock; else 0. The lock is a part of _PyRuntime.
 */
uintptr_t gf_python_line_lock_holder(uintptr_t futex, bool *ret_is_lock);

#endif
