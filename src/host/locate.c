/* SPDX-License-Identifier: Apache-2.0 */
#include "host/locate.h"

#include <limits.h>

static bool has_cpus(const struct gf_node *node)
{
    return !gf_set_empty(&node->cpus);
}

unsigned gf_locate_cpu_nodes(const struct gf_machine *machine)
{
    unsigned count = 0;
    for (size_t i = 0; i < machine->node_count; i++)
        count += has_cpus(&machine->nodes[i]);
    return count;
}

/*
 * Finds the nodes with CPUs at the smallest distance from a node without CPUs. The result is empty
 * if there are several and all are equally far, because the SLIT then does not identify the nearest
 * node.
 */
static void nearest_with_cpus(const struct gf_machine *machine, unsigned id, struct gf_nodes *ret)
{
    unsigned best = UINT_MAX;

    *ret = (struct gf_nodes){0};
    for (size_t i = 0; i < machine->node_count; i++) {
        const struct gf_node *node = &machine->nodes[i];
        const unsigned distance = gf_machine_distance(machine, id, node->id);
        if (!has_cpus(node) || distance == 0 || distance > best)
            continue;
        if (distance < best)
            *ret = (struct gf_nodes){0};
        best = distance;
        gf_set_add(ret, node->id);
    }
    const unsigned all = gf_locate_cpu_nodes(machine);
    if (all > 1 && gf_set_count(ret) == all)
        *ret = (struct gf_nodes){0};
}

static bool nodes_by_id(const struct gf_machine *machine, int id, struct gf_nodes *ret)
{
    const struct gf_node *node = id < 0 ? NULL : gf_machine_node(machine, (unsigned)id);

    *ret = (struct gf_nodes){0};
    if (!node)
        return false;
    if (has_cpus(node))
        gf_set_add(ret, node->id);
    else
        nearest_with_cpus(machine, node->id, ret);
    return !gf_set_empty(ret);
}

/*
 * Finds the nodes that have CPUs in the list. Returns false if the list contains CPUs of every
 * node, because it then does not identify the device's node.
 */
static bool nodes_by_cpus(const struct gf_machine *machine, const struct gf_cpus *cpus,
                          struct gf_nodes *ret)
{
    *ret = (struct gf_nodes){0};
    for (size_t i = 0; i < machine->node_count; i++)
        if (gf_set_meet(&machine->nodes[i].cpus, cpus))
            gf_set_add(ret, machine->nodes[i].id);
    const unsigned found = gf_set_count(ret);
    return found > 0 && (found < gf_locate_cpu_nodes(machine) || found == 1);
}

bool gf_locate(const struct gf_machine *machine, const struct gf_gpu *gpu, struct gf_nodes *ret,
               const char **ret_source)
{
    const struct gf_pci *pci = gf_pci_gpu(machine, gpu->bdf);

    if (pci && nodes_by_id(machine, pci->numa_node, ret))
        *ret_source = "sysfs";
    else if (pci && nodes_by_cpus(machine, &pci->cpus, ret))
        *ret_source = "local_cpulist";
    else if (nodes_by_id(machine, gpu->nvml_node, ret))
        *ret_source = "NVML";
    /*
     * The driver's node is ignored if it is 0. The driver also reports 0 if firmware reports no
     * node, for example in a virtual machine whose numa_node is -1.
     */
    else if (gpu->attr_node > 0 && nodes_by_id(machine, gpu->attr_node, ret))
        *ret_source = "driver attribute";
    else
        *ret_source = NULL;
    return *ret_source != NULL;
}

void gf_locate_cpus(const struct gf_machine *machine, const struct gf_nodes *nodes,
                    struct gf_cpus *ret)
{
    *ret = (struct gf_cpus){0};
    for (size_t i = 0; i < machine->node_count; i++)
        if (gf_set_test(nodes, machine->nodes[i].id))
            gf_set_or(ret, ret, &machine->nodes[i].cpus);
}

void gf_locate_socket(const struct gf_machine *machine, const struct gf_nodes *nodes,
                      struct gf_cpus *ret)
{
    gf_locate_cpus(machine, nodes, ret);
    for (size_t i = 0; i < machine->node_count; i++) {
        struct gf_cpus package;
        if (!gf_set_test(nodes, machine->nodes[i].id))
            continue;
        gf_machine_package_cpus(machine, machine->nodes[i].package, &package);
        gf_set_or(ret, ret, &package);
    }
}

void gf_locate_host_nodes(const struct gf_machine *machine, struct gf_nodes *ret)
{
    *ret = (struct gf_nodes){0};
    for (size_t i = 0; i < machine->node_count; i++)
        if (has_cpus(&machine->nodes[i]) && machine->nodes[i].has_memory)
            gf_set_add(ret, machine->nodes[i].id);
}

static bool is_on_node(const struct gf_machine *machine, const struct gf_pci *pci, unsigned node)
{
    struct gf_gpu gpu = {.attr_node = -1, .nvml_node = -1};
    struct gf_nodes nodes;
    const char *source;

    memcpy(gpu.bdf, pci->bdf, sizeof(gpu.bdf));
    return gf_locate(machine, &gpu, &nodes, &source) && gf_set_count(&nodes) == 1 &&
           gf_set_test(&nodes, node);
}

/*
 * Finds the index of the GPU among the GPUs of its node, and the number of these GPUs. Returns
 * false if /sys does not show that the GPU is on the node.
 */
static bool index_by_pci(const struct gf_machine *machine, const struct gf_gpu *gpu, unsigned node,
                         unsigned *ret_index, unsigned *ret_count)
{
    const struct gf_pci *own = gf_pci_gpu(machine, gpu->bdf);
    bool found = false;

    *ret_count = 0;
    for (size_t i = 0; i < machine->gpu_count; i++) {
        if (!is_on_node(machine, &machine->gpus[i], node))
            continue;
        if (&machine->gpus[i] == own) {
            *ret_index = *ret_count;
            found = true;
        }
        (*ret_count)++;
    }
    return found;
}

/*
 * Divides the cores that have a CPU in `among`, sorted by their first CPU, into `count` blocks.
 * Sets *ret to the CPUs of block `index` that are in `among`.
 */
static int take_block(const struct gf_machine *machine, const struct gf_cpus *among, unsigned index,
                      unsigned count, struct gf_cpus *ret)
{
    unsigned cores = 0, at = 0;

    for (size_t i = 0; i < machine->core_count; i++)
        cores += gf_set_meet(&machine->cores[i].cpus, among);
    if (cores < count)
        return -ERANGE;
    *ret = (struct gf_cpus){0};
    for (size_t i = 0; i < machine->core_count; i++) {
        if (!gf_set_meet(&machine->cores[i].cpus, among))
            continue;
        if (at >= index * cores / count && at < (index + 1) * cores / count)
            gf_set_or(ret, ret, &machine->cores[i].cpus);
        at++;
    }
    gf_set_and(ret, ret, among);
    return 0;
}

int gf_ranks_share(const struct gf_machine *machine, const struct gf_rank *rank,
                   const struct gf_gpu *gpu, unsigned node, const struct gf_cpus *among,
                   struct gf_cpus *ret)
{
    unsigned index = 0, count = 0;

    if (index_by_pci(machine, gpu, node, &index, &count))
        return take_block(machine, among, index, count, ret);
    if (rank->local_rank < 0 || rank->local_size <= 0)
        return -ENOENT;
    return take_block(machine, among, (unsigned)rank->local_rank, (unsigned)rank->local_size, ret);
}

unsigned gf_ranks_cpus(const struct gf_rank *rank, const struct gf_cpus *start,
                       const struct gf_cpus *cpuset, double quota)
{
    if (rank->local_size < 2 || !gf_set_within(cpuset, start))
        return 0;
    double cpus = gf_set_count(start);
    if (quota > 0 && quota < cpus)
        cpus = quota;
    return gf_max(1u, (unsigned)(cpus / rank->local_size));
}

#define NEED_LEAST 4
#define NEED_MOST 16
#define NEED_SHARE 4 /* divisor: a quarter of the CPUs */

unsigned gf_min_cpus(unsigned allowed, double quota)
{
    const unsigned share = (allowed + NEED_SHARE - 1) / NEED_SHARE;
    unsigned need = gf_min(gf_max(share, NEED_LEAST), NEED_MOST);

    if (quota > 0 && quota < need)
        need = (unsigned)quota + (quota > (unsigned)quota);
    return gf_min(need, allowed);
}
