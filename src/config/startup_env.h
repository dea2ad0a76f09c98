/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process before the library changed anything: options, CPU mask, environment.
 * Recorded at the first malloc or hooked call. Allocates nothing; any thread, before any
 * constructor, inside malloc.
 */
#ifndef GF_CONFIG_STARTUP_ENV_H
#define GF_CONFIG_STARTUP_ENV_H

#include "base/cpus.h"
#include "config/options.h"

#include <sys/types.h>

struct gf_startup_env {
    bool known; /* false if the kernel's mask does not fit into `cpus`; then nothing is bound */
    /*
     * The program started without descriptor 2, so a file that it opens later may get this number.
     */
    bool stderr_closed;
    dev_t stderr_device; /* the file of descriptor 2 */
    ino_t stderr_inode;
    /* The process that made the record. Forked children inherit the record. */
    pid_t pid;
    struct gf_cpus cpus; /* sched_getaffinity of the recording thread */
    char *const *envp;   /* the environment at that time; it may have changed since */
};

/*
 * Returns the record. The first call makes the record, and other callers wait for it. Never NULL.
 * Keeps errno.
 */
const struct gf_startup_env *gf_startup_env(void);
const struct gf_options *gf_startup_env_options(void);

#endif
