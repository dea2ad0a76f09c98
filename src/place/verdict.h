/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision: for these GPUs, on this machine, for a process of which these facts hold, which
 * CPUs and which memory policy. Pure: reads nothing, changes nothing, so each row of the decision
 * table (docs/placement.md) is a unit test.
 */
#ifndef GF_PLACE_VERDICT_H
#define GF_PLACE_VERDICT_H

#include "config/options.h"
#include "host/facts.h"
#include "host/machine.h"

/* A GPU as the driver names it, with every source of its node; -1 / NULL where a source is silent. */
struct gf_gpu {
    char bdf[20];
    char name[64];
    int device;       /* the driver's ordinal in this process */
    int attr_node;    /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; -1 */
    int nvml_node;    /* NVML memory affinity by PCI id; -1 */
};

enum gf_bound { /* what is done with the CPUs */
    gf_bound_none,
    gf_bound_node,
    gf_bound_nodes,     /* GPUs on several nodes: their union */
    gf_bound_socket,
    gf_bound_exclusive,
    gf_bound_submitters /* too few CPUs for all: only the threads that submit work */
};

struct gf_verdict {
    enum gf_bound bound;
    struct gf_cpus cpus;     /* to set; empty when bound is none */
    struct gf_cpus socket;   /* what the guard widens to first: of the package, in start or, forced, allowed */
    struct gf_nodes nodes;   /* of the GPUs; empty unknown */
    int policy;              /* MPOL_PREFERRED, MPOL_BIND, or MPOL_DEFAULT for first touch */
    struct gf_nodes policy_nodes;
    char policy_reason[128]; /* why that policy, or why none; always set */
    const char *node_source; /* "sysfs", "local_cpulist", "NVML", "driver attribute", NULL unknown */
    char reason[192];        /* why, or why not, in words; always set */
    char remedy[192];        /* the command that mends it; "" */
    bool warn;               /* the reason goes against the user's interest: say it at VERBOSE=0 too */
};

/*
 * probe NULL: nothing is known to be refused. Deciding twice, first so, then with what a probe of
 * the first verdict's node and CPUs said, is how the node to probe is found.
 */
void gf_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                       const struct gf_probe *probe, const struct gf_options *options,
                       const struct gf_gpu *gpus, size_t gpu_count, struct gf_verdict *ret);

const char *gf_bound_name(enum gf_bound bound);

#endif
