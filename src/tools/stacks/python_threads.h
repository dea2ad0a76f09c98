/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python interpreter of another process, and which of its threads run Python. Thread states are
 * found without offsets of a particular CPython version. A thread state contains its thread's
 * pthread_self(), a pointer to its interpreter, and pointers to its neighbours.
 */
#pragma once

#include "base/pystack.h"
#include "tools/stacks/target.h"

/* A thread state of one thread, which has one in each interpreter that it has entered. */
struct gf_python_state {
    size_t thread; /* index in the target's threads */
    uintptr_t state;
};

struct gf_python_threads {
    const struct gf_pystack_layout *layout; /* NULL: frames of that version cannot be read */
    char version[32];                       /* "3.11"; "": no interpreter was found */
    /* Those of the newest interpreter come first. */
    struct gf_python_state *states;
    size_t count;
};

/*
 * Returns 0 or an errno: ENOENT if the process has no interpreter that exports _PyRuntime, ENOTSUP
 * if frames of its version cannot be read, ENOMEM. The states are never freed: the caller is a child
 * process that ends.
 */
int gf_python_threads_find(struct gf_python_threads *python, struct gf_target *target);
