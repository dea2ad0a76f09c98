/* SPDX-License-Identifier: Apache-2.0 */
#include "host/memory_verdict.h"

#include "base/fmt.h"
#include "host/locate.h"
#include "host/mempolicy.h"

#define SAY(ret, ...) gf_fmt((ret)->policy_reason, sizeof((ret)->policy_reason), __VA_ARGS__)

/*
 * Whether the machine has a node with memory but no CPUs. only_gpus: consider only nodes that are
 * known to be the memory of a GPU.
 */
static bool has_device_memory(const struct gf_machine *machine, bool only_gpus)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (only_gpus ? machine->nodes[i].is_gpu : machine->nodes[i].is_device)
            return true;
    return false;
}

/*
 * Chooses MPOL_BIND to all nodes except those of GPU memory. The kernel then takes pages from the
 * nearest of these nodes, and never from the memory of a GPU. Memory expanders are included,
 * because the OOM killer kills the program when all bound nodes are full.
 */
static void bind_to_host(const struct gf_machine *machine, const struct gf_nodes *mems,
                         struct gf_verdict *ret)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (machine->nodes[i].has_memory && !machine->nodes[i].is_gpu)
            gf_set_add(&ret->policy_nodes, machine->nodes[i].id);
    gf_set_and(&ret->policy_nodes, &ret->policy_nodes, mems);
    if (gf_set_empty(&ret->policy_nodes)) {
        SAY(ret,
            "only the GPUs' own nodes have memory that this process may use, so no policy is set");
        return;
    }
    ret->policy = GF_MPOL_BIND;
    SAY(ret, "bound to all nodes except the GPUs' own");
}

/*
 * Chooses to prefer the nodes with CPUs, the nearest first. When they are full, pages come from
 * memory expanders. Returns false if this is impossible.
 */
static bool prefer_host(const struct gf_machine *machine, const struct gf_nodes *mems,
                        const struct gf_probe *probe, struct gf_verdict *ret)
{
    struct gf_nodes nodes;

    gf_locate_host_nodes(machine, &nodes);
    gf_set_and(&nodes, &nodes, mems);
    if (gf_set_empty(&nodes) || (probe && probe->preferred_many))
        return false;
    ret->policy = GF_MPOL_PREFERRED_MANY;
    ret->policy_nodes = nodes;
    SAY(ret, "nodes with CPUs first; when they are full, nodes without CPUs");
    return true;
}

static void follow_gpu(const struct gf_machine *machine, const struct gf_nodes *mems,
                       const struct gf_options *options, struct gf_verdict *ret)
{
    struct gf_nodes having, nodes;

    gf_locate_host_nodes(machine, &having);
    gf_set_and(&having, &having, &ret->nodes);
    gf_set_and(&nodes, &having, mems);
    if (gf_set_empty(&nodes)) {
        SAY(ret, "%s, so no policy is set",
            gf_set_empty(&ret->nodes) ? "the GPU's node is unknown"
            : gf_set_empty(&having)   ? "the GPU's node has no memory"
                                      : "the process may not use the node's memory");
    } else if (options->mem == gf_mem_strict) {
        ret->policy = GF_MPOL_BIND;
        ret->policy_nodes = nodes;
        SAY(ret, "GPUFEED_MEM=strict: if these nodes have no free memory, the OOM killer kills the "
                 "program");
    } else if (gf_set_count(&nodes) > 1) {
        SAY(ret, "the GPUs are on several nodes, so no policy is set: each page goes to the node "
                 "that first touches it");
    } else {
        ret->policy = GF_MPOL_PREFERRED;
        ret->policy_nodes = nodes;
        SAY(ret, "the GPU's node first; when it is full, other nodes");
    }
}

/*
 * Applies those rules of the decision table (docs/placement.md) by which the user, a launcher or an
 * option decides the policy. Returns true if one of these rules applies.
 */
static bool is_policy_decided(const struct gf_facts *facts, const struct gf_options *options,
                              enum gf_cpu_choice choice, struct gf_verdict *ret)
{
    const bool asked = options->mem == gf_mem_preferred || options->mem == gf_mem_strict;
    char policy[80];

    if (options->mode != gf_mode_on)
        SAY(ret, "GPUFEED is not on");
    else if (options->mem == gf_mem_off)
        SAY(ret, "GPUFEED_MEM=off");
    else if (facts->start_policy > GF_MPOL_DEFAULT && !asked)
        SAY(ret, "the program was started with memory policy %s, which is kept",
            gf_mempolicy_format(facts->start_policy, &facts->start_policy_nodes, policy,
                                sizeof(policy)));
    else if (choice == gf_cpu_choice_user && !asked)
        SAY(ret, "the user chose the CPUs, so no policy is set");
    else
        return false;
    return true;
}

void gf_memory_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                              const struct gf_probe *probe, const struct gf_options *options,
                              enum gf_cpu_choice choice, struct gf_verdict *ret)
{
    const bool asked = options->mem == gf_mem_preferred || options->mem == gf_mem_strict;

    ret->policy = GF_MPOL_DEFAULT;
    if (is_policy_decided(facts, options, choice, ret))
        return;
    if (has_device_memory(machine, true) && options->mem != gf_mem_strict)
        bind_to_host(machine, &facts->mems, ret);
    else if (has_device_memory(machine, false) && options->mem != gf_mem_strict &&
             prefer_host(machine, &facts->mems, probe, ret))
        ; /* prefer_host fails on kernels before 5.15; then a rule below prefers the GPU's node */
    else if (choice == gf_cpu_choice_remote && !asked)
        SAY(ret, "too few of the CPUs are near the GPU, so no policy is set, and memory stays "
                 "near the CPUs");
    else if (choice == gf_cpu_choice_pinned && !asked)
        SAY(ret, "the program pinned threads to CPUs away from the GPU, so no policy is set");
    else if (gf_locate_cpu_nodes(machine) <= 1 && !asked)
        SAY(ret, "single node: nothing to prefer");
    else
        follow_gpu(machine, &facts->mems, options, ret);
    if (ret->policy == GF_MPOL_DEFAULT || !probe || !probe->set_mempolicy)
        return;
    ret->policy = GF_MPOL_DEFAULT;
    ret->policy_nodes = (struct gf_nodes){0};
    if (probe->set_mempolicy == GF_UNTRIED)
        SAY(ret, "set_mempolicy could not be tried, so no policy is set");
    else
        SAY(ret, "the kernel refused set_mempolicy (%s), so no policy is set",
            strerrorname_np(probe->set_mempolicy));
    const char *remedy = gf_probe_remedy(probe->set_mempolicy);
    if (remedy && !*ret->remedy)
        gf_fmt(ret->remedy, sizeof(ret->remedy), "%s", remedy);
    ret->warn = ret->warn || asked;
}
