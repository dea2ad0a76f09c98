/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hint GPUFEED_BOUND. A process that bound itself passes two masks to the programs that it
 * starts: the mask before binding and the mask that it set. docs/environment.md has the format. A
 * reader uses the hint only if its present mask still equals the mask that was set.
 */
#ifndef GF_ENGINE_PLACE_HINT_H
#define GF_ENGINE_PLACE_HINT_H

#include "base/cpus.h"

#include <sys/types.h>

struct gf_hint {
    pid_t pid;             /* the process that bound */
    struct gf_cpus was;    /* the mask before binding */
    struct gf_cpus set;    /* the mask that was set */
    int policy;            /* MPOL_DEFAULT (no policy was set) or a policy of a verdict */
    struct gf_nodes nodes; /* nodes of the policy; empty for MPOL_DEFAULT */
};

/* Enough for two lists of 4096 CPUs at their longest, a list of nodes, and the names. */
#define GF_HINT_MAX (2 * 5 * GF_CPUS_MAX / 2 + 5 * GF_NODES_MAX / 2 + 128)

/* Writes the whole entry, "GPUFEED_BOUND=v1;...". Returns its length, or -ENOSPC. */
int gf_hint_format(const struct gf_hint *hint, char *buf, size_t size);

/*
 * Parses the value, which must have every field in order and nothing else. 0 or -EINVAL. Allocates.
 */
int gf_hint_parse(const char *value, struct gf_hint *ret);

/*
 * Reads the hint from an environment. 0, -ENOENT if the variable is absent, or -EINVAL. Allocates.
 */
int gf_hint_read(char *const *envp, struct gf_hint *ret);

/*
 * Puts the hint into this process's environment; if hint is NULL, removes it. One store publishes a
 * complete new environ, and the old one stays allocated. So getenv in another thread sees the old
 * or the new one. setenv would move memory that such threads read. Returns 0 or -errno.
 */
int gf_hint_publish(const struct gf_hint *hint);

#endif
