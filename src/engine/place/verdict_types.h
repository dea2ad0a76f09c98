/* SPDX-License-Identifier: Apache-2.0 */
/* The decision about CPUs and memory: the types shared by the modules that make it and read it. */
#ifndef GF_ENGINE_PLACE_VERDICT_TYPES_H
#define GF_ENGINE_PLACE_VERDICT_TYPES_H

#include "base/cpus.h"

enum gf_bound { /* the CPUs that threads are bound to */
                gf_bound_none,
                gf_bound_node,
                gf_bound_nodes, /* GPUs on several nodes: their union */
                gf_bound_socket,
                gf_bound_exclusive,
                gf_bound_submitters /* too few CPUs: only threads that submit work are bound */
};

struct gf_verdict {
    enum gf_bound bound;
    struct gf_cpus cpus; /* the mask to set; empty if bound is gf_bound_none */
    /* The allowed CPUs of the package, to which the guard's first step widens. */
    struct gf_cpus socket;
    struct gf_nodes nodes; /* the GPUs' nodes; empty if unknown */
    int policy;            /* GF_MPOL_DEFAULT for first touch, or another of mempolicy.h */
    struct gf_nodes policy_nodes;
    char policy_reason[128]; /* why this policy, or why no policy; always set */
    const char
        *node_source; /* "sysfs", "local_cpulist", "NVML", "driver attribute"; NULL if unknown */
    char reason[192]; /* why these CPUs, or why no binding; always set */
    char remedy[192]; /* a command or option that helps; or "" */
    bool warn;        /* print the reason even at GPUFEED_VERBOSE=0 */
};

#endif
