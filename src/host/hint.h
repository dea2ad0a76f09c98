/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the hint GPUFEED_BOUND. A process that the library has bound passes two masks to
 * the programs that it starts: the mask before the binding and the mask that was set.
 * docs/environment.md describes the format. A process uses the hint only if its own mask equals the
 * mask that was set.
 */
#pragma once

#include "base/cpus.h"

struct gf_hint {
    pid_t pid;             /* the process whose threads were bound */
    struct gf_cpus was;    /* the mask before the binding */
    struct gf_cpus set;    /* the mask that was set */
    int policy;            /* the policy that was set; MPOL_DEFAULT: none was set */
    struct gf_nodes nodes; /* nodes of the policy; empty for MPOL_DEFAULT */
};

/*
 * Enough bytes for the longest possible hint: two lists of 4096 CPUs, a list of nodes, and the
 * names.
 */
#define GF_HINT_MAX (2 * 5 * GF_CPUS_MAX / 2 + 5 * GF_NODES_MAX / 2 + 128)

/* Writes the whole entry, "GPUFEED_BOUND=v1;...". Returns its length, or -ENOSPC. */
int gf_hint_format(const struct gf_hint *hint, char *buf, size_t size);

/*
 * Parses the value, which must contain each field once, in order, and nothing else. Returns 0 or
 * -EINVAL. Allocates memory.
 */
int gf_hint_parse(const char *value, struct gf_hint *ret);

/*
 * Reads the hint from an environment. Returns 0, -ENOENT if the variable is absent, or -EINVAL.
 * Allocates memory.
 */
int gf_hint_read(char *const *envp, struct gf_hint *ret);

/*
 * Puts the hint into this process's environment; if hint is NULL, removes it. The function builds a
 * complete new vector, publishes it by one store to `environ`, and never frees the old vector. So
 * getenv in another thread sees either the old or the new vector. setenv is not used, because it
 * would move memory that such a thread reads. Without memory, the environment stays as it is.
 */
void gf_hint_publish(const struct gf_hint *hint);

/* Sets GPUFEED_ENGINE in the same way, also if nothing is bound. */
void gf_hint_publish_engine(pid_t pid);
