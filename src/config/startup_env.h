/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process before the library changed anything: options, CPU mask, environment.
 * Recorded once, at the first malloc or hooked call, so the environment is parsed only once.
 * Allocates nothing; any thread, before any constructor, inside malloc.
 */
#ifndef GF_CONFIG_STARTUP_ENV_H
#define GF_CONFIG_STARTUP_ENV_H

#include "base/cpus.h"
#include "config/options.h"

#include <sys/types.h>

struct gf_startup_env {
    bool known; /* false if the kernel's mask is larger than cpus: then nothing is bound */
    /*
     * The program started without fd 2. So the number may belong to any file that it opens later.
     */
    bool stderr_closed;
    pid_t pid;           /* of the process that recorded it; a forked child inherits the record */
    struct gf_cpus cpus; /* sched_getaffinity of the recording thread */
    char *const *envp;   /* the environment at that time; it may have changed since */
};

/*
 * Returns the record, and makes it at the first call; concurrent callers wait for that. Never NULL.
 * Keeps errno.
 */
const struct gf_startup_env *gf_startup_env(void);
const struct gf_options *gf_startup_env_options(void);

#endif
