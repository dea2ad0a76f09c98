/* SPDX-License-Identifier: Apache-2.0 */
/* The data that `gpufeed topo` shows and `gpufeed doctor` checks, gathered once. */
#pragma once

#include "host/facts.h"
#include "host/machine.h"
#include "tools/topo/visible_gpus.h"

struct gf_topo_gpu {
    char bdf[20];
    char name[64]; /* "" unknown */
    char uuid[64]; /* "" unknown */
    int device;    /* CUDA's expected index; -1 if hidden or uncertain */
    bool visible;
    struct gf_nodes nodes; /* empty if unknown */
    const char *source;    /* the source of the nodes; NULL if unknown */
    struct gf_cpus cpus;   /* the CPUs of these nodes */
    struct gf_cpus usable; /* the part of `cpus` that this process may use */
    /* If `usable` is empty, the nearest node with CPUs that this process may use; -1 if unknown. */
    int nearest;
};

struct gf_topo {
    const struct gf_machine *machine;
    struct gf_facts facts;
    /*
     * False for a recording without a mask; facts.start is then a mask of this machine, not of the
     * recorded one.
     */
    bool has_mask;
    struct gf_visible_gpus visible;
    struct gf_topo_gpu gpus[GF_VISIBLE_GPUS_MAX];
    size_t gpu_count;
};

/*
 * Gathers the data about this process and about a machine, whose files are at root. *ret refers to
 * the machine.
 */
void gf_topo_gather(const struct gf_machine *machine, const char *root, char *const *envp,
                    struct gf_topo *ret);
