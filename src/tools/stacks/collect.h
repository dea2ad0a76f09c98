/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the stacks of another process. A child process traces the threads, its own child reads their
 * memory and files within a time limit, and then both end. So the threads continue whatever happens
 * to this process or to the reader: a full pipe at the output, a signal, or a file that cannot be
 * read. The kernel detaches the threads of a tracer that ends, also those that cannot be detached
 * because they never stopped.
 */
#pragma once

#include "base/pystack.h"
#include "tools/stacks/target.h"

#define GF_COLLECT_FRAMES 128 /* of each kind and thread */

struct gf_stack {
    struct gf_target_thread thread;
    bool read; /* false: the time was over before */
    struct gf_pystack_frame *python;
    uintptr_t *native;
    uint32_t python_count, native_count;
    bool python_cut, native_cut; /* there are more frames, which were not read */
    char name[64];               /* of Python's Thread; "" if unknown */
};

struct gf_collected {
    char python[32];  /* version of the interpreter; "" if there is none */
    int python_error; /* of gf_python_threads_find */
    struct gf_stack *stacks;
    size_t count;
    uint64_t stopped_ns; /* how long the first thread that stopped was stopped, at most */
};

/*
 * native: whether native frames are read, too. Returns 0 or an errno: ESRCH if the process does not exist, EPERM if none of its
 * threads may be traced, ENOMEM, ETIMEDOUT if not even the list of threads was read in time. The caller calls
 * gf_collected_free in every case.
 */
int gf_collect(pid_t pid, bool native, struct gf_collected *ret);
void gf_collected_free(struct gf_collected *collected);
