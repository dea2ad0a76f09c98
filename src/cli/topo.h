/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpufeed topo` shows, gathered once for its two forms. */
#ifndef GF_CLI_TOPO_H
#define GF_CLI_TOPO_H

#include "cli/visible.h"
#include "host/facts.h"
#include "host/machine.h"

struct gf_topo_gpu {
    char bdf[20];
    char name[64]; /* "" unknown */
    char uuid[64]; /* "" unknown */
    int device;    /* index in the order that CUDA is expected to use; -1 hidden or not certain */
    bool visible;
    struct gf_nodes nodes;  /* empty: unknown */
    const char *source;     /* who says so; NULL unknown */
    struct gf_cpus cpus;    /* of those nodes */
    struct gf_cpus usable;  /* of them, what this process may use */
    int nearest;            /* an allowed node nearest to it, when none of its own may be used; -1 */
};

struct gf_topo {
    const struct gf_machine *machine;
    struct gf_facts facts;
    struct gf_visible visible;
    struct gf_topo_gpu gpus[GF_VISIBLE_MAX];
    size_t gpu_count;
};

/* machine stays the caller's and must outlive ret. */
void gf_topo_gather(const struct gf_machine *machine, const char *root, char *const *envp,
                    struct gf_topo *ret);

void gf_topo_print(const struct gf_topo *topo);
/* 0, or -ENOMEM. */
int gf_topo_print_json(const struct gf_topo *topo);

#endif
