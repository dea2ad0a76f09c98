/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo/topo.h"

#include "host/locate.h"
#include "os/procfs.h"

#include <sched.h>

/*
 * Returns the node with usable CPUs that is nearest to one of `nodes`; -1 if distances are unknown.
 */
static int nearest_usable(const struct gf_topo *topo, const struct gf_nodes *nodes)
{
    const struct gf_machine *machine = topo->machine;
    const size_t count = machine->distances ? machine->node_count : 0;
    unsigned best = 0;
    int found = -1;

    for (size_t i = 0; i < count * count; i++) {
        const struct gf_node *from = &machine->nodes[i / count], *to = &machine->nodes[i % count];
        const unsigned distance = machine->distances[i];
        if (distance && (found < 0 || distance < best) && gf_set_test(nodes, from->id) &&
            gf_set_meet(&to->cpus, &topo->facts.start)) {
            best = distance;
            found = (int)to->id;
        }
    }
    return found;
}

/* Returns the index of a GPU in the list; -1 if it is not there. */
static int index_of(const struct gf_visible_gpus *list, const char *bdf)
{
    char canonical[20];

    for (size_t i = 0; i < list->count; i++)
        if (gf_pci_canonical(list->gpus[i].bdf, canonical) == 0 && strcmp(canonical, bdf) == 0)
            return (int)i;
    return -1;
}

static void add_gpu(struct gf_topo *topo, const struct gf_pci *pci,
                    const struct gf_visible_gpus *all)
{
    struct gf_topo_gpu *gpu = &topo->gpus[topo->gpu_count++];
    struct gf_gpu wanted = {.device = -1, .attr_node = -1, .nvml_node = -1};
    const int known = index_of(all, pci->bdf), index = index_of(&topo->visible, pci->bdf);

    memcpy(gpu->bdf, pci->bdf, sizeof(gpu->bdf));
    memcpy(wanted.bdf, pci->bdf, sizeof(wanted.bdf));
    if (known >= 0) {
        memcpy(gpu->name, all->gpus[known].model, sizeof(gpu->name));
        memcpy(gpu->uuid, all->gpus[known].uuid, sizeof(gpu->uuid));
    }
    gpu->visible = index >= 0;
    gpu->device = topo->visible.ordered ? index : -1;
    gpu->nearest = -1;
    if (!gf_locate(topo->machine, &wanted, &gpu->nodes, &gpu->source))
        return;
    gf_locate_cpus(topo->machine, &gpu->nodes, &gpu->cpus);
    gf_set_and(&gpu->usable, &gpu->cpus, &topo->facts.start);
    if (gf_set_empty(&gpu->usable))
        gpu->nearest = nearest_usable(topo, &gpu->nodes);
}

/*
 * Reads the CPU mask of the process that made the recording. Returns false if it is not recorded.
 */
static bool read_recorded_mask(const char *root, struct gf_cpus *ret)
{
    char text[4096], list[1024];

    return *root && gf_procfs_read(text, sizeof(text), root, "proc/self/status") > 0 &&
           gf_procfs_copy(text, "Cpus_allowed_list", list, sizeof(list)) &&
           gf_set_parse(list, ret) == 0 && !gf_set_empty(ret);
}

void gf_topo_gather(const struct gf_machine *machine, const char *root, char *const *envp,
                    struct gf_topo *ret)
{
    struct gf_visible_gpus all;
    struct gf_cpus start = {0};

    memset(ret, 0, sizeof(*ret));
    ret->machine = machine;
    ret->has_mask = !*root || read_recorded_mask(root, &start);
    if (gf_set_empty(&start) && sched_getaffinity(0, sizeof(start), (cpu_set_t *)&start))
        start = machine->online;
    /* The limits belong to the process with this mask, which may be the recorded one. */
    gf_facts_gather(ret->has_mask ? root : "", envp, &start, &ret->facts);
    gf_visible_gpus_read(machine, root, &all);
    ret->visible = all;
    gf_visible_gpus_choose(&ret->visible, gf_launch_variable(envp, "CUDA_VISIBLE_DEVICES"),
                           gf_launch_variable(envp, "CUDA_DEVICE_ORDER"));
    for (size_t i = 0; i < machine->gpu_count && ret->gpu_count < GF_VISIBLE_GPUS_MAX; i++)
        add_gpu(ret, &machine->gpus[i], &all);
}
