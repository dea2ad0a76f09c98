/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_BOUND: what a process that bound tells the programs that it starts. docs/environment.md
 * has the format. A hint only: whoever reads it acts on it only where the present mask still
 * equals what the variable says was set.
 */
#ifndef GF_PLACE_HINT_H
#define GF_PLACE_HINT_H

#include "base/cpus.h"

#include <sys/types.h>

struct gf_hint {
    pid_t pid;             /* who bound */
    struct gf_cpus was;    /* the mask before */
    struct gf_cpus set;    /* the mask that was set */
    int policy;            /* MPOL_DEFAULT (none was set), MPOL_PREFERRED or MPOL_BIND */
    struct gf_nodes nodes; /* of the policy; empty for MPOL_DEFAULT */
};

/* Two lists of 4096 CPUs at their longest, and the rest. */
#define GF_HINT_MAX (2 * 5 * GF_CPUS_MAX / 2 + 5 * GF_NODES_MAX / 2 + 128)

/* The whole entry, "GPUFEED_BOUND=v1;...". Its length, or -ENOSPC. */
int gf_hint_format(const struct gf_hint *hint, char *buf, size_t size);

/* From the value behind the equals sign; every field, in order, nothing else. 0 or -EINVAL. */
int gf_hint_parse(const char *value, struct gf_hint *ret);

/* From an environment. 0; -ENOENT when the variable is not there; -EINVAL. */
int gf_hint_read(char *const *envp, struct gf_hint *ret);

/*
 * Puts the hint into this process's environment, or takes it out (hint NULL). The new environ is
 * complete before one store makes it visible and the old one stays alive: getenv in other threads
 * sees either. Not setenv: that moves memory under those readers. Allocates, and leaks an array of
 * pointers by intention. 0 or -errno.
 */
int gf_hint_publish(const struct gf_hint *hint);

#endif
