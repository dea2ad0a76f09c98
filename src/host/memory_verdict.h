/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cpus.h"
#include "config/options.h"
#include "host/facts.h"
#include "host/machine.h"

/* The types of the decision about CPUs and memory, for the modules that make it and read it. */

enum gf_bound { /* the CPUs that threads are bound to */
                gf_bound_none,
                gf_bound_node,
                gf_bound_nodes, /* the GPUs are on several nodes: the CPUs of all these nodes */
                gf_bound_socket,
                gf_bound_exclusive,
                /* The node has too few CPUs: only threads that submit work are bound. */
                gf_bound_submitters
};

struct gf_verdict {
    enum gf_bound bound;
    struct gf_cpus cpus; /* the mask to set; empty if bound is gf_bound_none */
    /*
     * The CPUs of the package that the program may use. The guard's first step widens the mask to
     * them.
     */
    struct gf_cpus socket;
    struct gf_nodes nodes; /* the nodes of the GPUs; empty if unknown */
    int policy;            /* a policy of mempolicy.h; GF_MPOL_DEFAULT: no policy is set */
    struct gf_nodes policy_nodes;
    char policy_reason[128]; /* reason for this policy, or for no policy; never empty */
    const char
        *node_source; /* "sysfs", "local_cpulist", "NVML", "driver attribute"; NULL if unknown */
    char reason[192]; /* reason for these CPUs, or for no binding; never empty */
    char remedy[192]; /* a command or option that helps; or "" */
    bool warn;        /* true: print the reason even at GPUFEED_VERBOSE=0 */
};

/*
 * Decides the memory policy of a verdict. The function has no side effects, and may be called on
 * any thread.
 */

/* How the CPUs were chosen, and where they are. The memory policy depends on this. */
enum gf_cpu_choice {
    gf_cpu_choice_free,   /* the library may bind to CPUs of the GPU's node */
    gf_cpu_choice_user,   /* the user narrowed the start mask */
    gf_cpu_choice_remote, /* the program may use no CPU of the GPU's node, or too few */
    gf_cpu_choice_pinned, /* the program pinned threads to CPUs that are not on the GPU's node */
};

/*
 * Sets policy, policy_nodes, policy_reason, remedy and warn of *ret. The caller has set nodes and
 * bound.
 */
void gf_memory_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                              const struct gf_probe *probe, const struct gf_options *options,
                              enum gf_cpu_choice choice, struct gf_verdict *ret);
