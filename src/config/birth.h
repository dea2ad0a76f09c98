/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was true before the library did anything, recorded once, at the first malloc or hooked
 * call of the process: its options, its mask, its environment. Everybody reads these; there is no
 * second parse. Allocates nothing; any thread, before any constructor, inside malloc.
 */
#ifndef GF_CONFIG_BIRTH_H
#define GF_CONFIG_BIRTH_H

#include "base/cpus.h"
#include "config/options.h"

#include <sys/types.h>

struct gf_birth {
    bool known;          /* false when the kernel's mask did not fit: then nothing is bound */
    bool mute;           /* it was started without standard error: what has that number is the program's own */
    pid_t pid;           /* of the process that recorded it: a forked child inherits the record */
    struct gf_cpus cpus; /* sched_getaffinity of the recording thread */
    char *const *envp;   /* the environment at that time; may have changed since */
};

/* The first call records; never NULL. Keep errno. */
const struct gf_birth *gf_birth(void);
const struct gf_options *gf_birth_options(void);

#endif
