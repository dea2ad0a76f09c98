/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/ranks.h"

#include "engine/machine/pci.h"
#include "engine/place/locate.h"

#include <errno.h>
#include <string.h>

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
