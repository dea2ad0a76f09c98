/* SPDX-License-Identifier: Apache-2.0 */
#include "place/memory.h"

#include "base/fmt.h"
#include "host/policy.h"
#include "place/locate.h"

#include <errno.h>
#include <string.h>

#define SAY(ret, ...) gf_fmt((ret)->policy_reason, sizeof((ret)->policy_reason), __VA_ARGS__)

static bool has_device_memory(const struct gf_machine *machine)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (machine->nodes[i].is_device)
            return true;
    return false;
}

/* All CPU nodes: pages come from the nearest of them and never from a GPU's or CXL memory. */
static void bind_to_host(const struct gf_machine *machine, const struct gf_nodes *mems,
                         struct gf_verdict *ret)
{
    gf_locate_host_nodes(machine, &ret->policy_nodes);
    gf_set_and(&ret->policy_nodes, &ret->policy_nodes, mems);
    if (gf_set_empty(&ret->policy_nodes)) {
        SAY(ret, "no node with CPUs may give memory: first touch");
        return;
    }
    ret->policy = GF_MPOL_BIND;
    SAY(ret, "bound to all CPU nodes, which keeps pages out of device memory");
}

static void follow_gpu(const struct gf_machine *machine, const struct gf_nodes *mems,
                       const struct gf_options *options, struct gf_verdict *ret)
{
    struct gf_nodes nodes;

    gf_locate_host_nodes(machine, &nodes);
    gf_set_and(&nodes, &nodes, &ret->nodes);
    gf_set_and(&nodes, &nodes, mems);
    if (gf_set_empty(&nodes)) {
        SAY(ret, gf_set_empty(&ret->nodes) ? "no node to prefer: first touch"
                                           : "the node may give no memory: first touch");
    } else if (options->mem == gf_mem_strict) {
        ret->policy = GF_MPOL_BIND;
        ret->policy_nodes = nodes;
        SAY(ret, "GPUFEED_MEM=strict: beyond the free memory of these nodes the program is killed");
    } else if (gf_set_count(&nodes) > 1) {
        SAY(ret, "several nodes: first touch");
    } else {
        ret->policy = GF_MPOL_PREFERRED;
        ret->policy_nodes = nodes;
        SAY(ret, "the GPU's node first, others when it is full");
    }
}

/* Whether anybody but us has decided, or asked for nothing. */
static bool is_decided(const struct gf_facts *facts, const struct gf_options *options,
                       bool user_bound, struct gf_verdict *ret)
{
    const bool asked = options->mem == gf_mem_preferred || options->mem == gf_mem_strict;

    if (options->mode != gf_mode_on)
        SAY(ret, "GPUFEED is not on");
    else if (options->mem == gf_mem_off)
        SAY(ret, "GPUFEED_MEM=off");
    else if (facts->start_policy > GF_MPOL_DEFAULT && !asked)
        SAY(ret, "the program was started with a memory policy of its own");
    else if (user_bound && !asked)
        SAY(ret, "first touch by the CPUs that the program was given");
    else
        return false;
    return true;
}

void gf_memory_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                      const struct gf_probe *probe, const struct gf_options *options,
                      bool user_bound, struct gf_verdict *ret)
{
    const bool asked = options->mem == gf_mem_preferred || options->mem == gf_mem_strict;

    ret->policy = GF_MPOL_DEFAULT;
    if (is_decided(facts, options, user_bound, ret))
        return;
    if (has_device_memory(machine) && options->mem != gf_mem_strict)
        bind_to_host(machine, &facts->mems, ret);
    else if (gf_locate_cpu_nodes(machine) <= 1 && !asked)
        SAY(ret, "single node: nothing to prefer");
    else
        follow_gpu(machine, &facts->mems, options, ret);
    if (ret->policy == GF_MPOL_DEFAULT || !probe || !probe->set_mempolicy)
        return;
    ret->policy = GF_MPOL_DEFAULT;
    ret->policy_nodes = (struct gf_nodes){0};
    if (probe->set_mempolicy == GF_UNTRIED)
        SAY(ret, "set_mempolicy could not be tried: first touch");
    else
        SAY(ret, "set_mempolicy refused (%s): first touch", strerrorname_np(probe->set_mempolicy));
    const char *remedy = gf_probe_remedy(probe->set_mempolicy);
    if (remedy && !*ret->remedy)
        gf_fmt(ret->remedy, sizeof(ret->remedy), "%s", remedy);
    ret->warn = ret->warn || asked;
}
