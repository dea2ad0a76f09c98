/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/locate.h"

#include "engine/machine/pci.h"

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
