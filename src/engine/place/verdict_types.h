/* SPDX-License-Identifier: Apache-2.0 */
/* The types of the decision about CPUs and memory, for the modules that make it and read it. */
#ifndef GF_ENGINE_PLACE_VERDICT_TYPES_H
#define GF_ENGINE_PLACE_VERDICT_TYPES_H

#include "base/cpus.h"

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

#endif
