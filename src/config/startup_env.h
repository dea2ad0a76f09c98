/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process before the library changed anything: options, CPU mask, environment. The
 * state is recorded at the first call of malloc or of a hooked function. The functions allocate
 * nothing. They may be called on any thread, inside malloc and before any constructor has run.
 */
#pragma once

#include "base/cpus.h"
#include "config/options.h"

struct gf_startup_env {
    bool known; /* false if the kernel's mask does not fit into `cpus`; then nothing is bound */
    /*
     * True if the program started without descriptor 2. A file that it opens later may get this
     * number.
     */
    bool stderr_closed;
    dev_t stderr_device; /* identity of the file that descriptor 2 referred to */
    ino_t stderr_inode;
    /* The id of the process that made the record. Forked children inherit the record. */
    pid_t pid;
    bool run;            /* `gpufeed run` started this process itself, not a descendant */
    struct gf_cpus cpus; /* the CPU mask of the recording thread */
    bool valgrind;       /* valgrind runs the process */
    bool searches_here;  /* LD_LIBRARY_PATH names a relative folder, perhaps by "" */
    /*
     * The environment when the record was made. To be read only at the first call of malloc: libc then may copy the
     * list, and the program may free strings of this list that it has removed from the copy.
     */
    char *const *envp;
};

/*
 * Returns the record, never NULL. The first call makes the record; calls on other threads wait
 * until it is made. Keeps errno.
 */
const struct gf_startup_env *gf_startup_env(void);
const struct gf_options *gf_startup_env_options(void);
