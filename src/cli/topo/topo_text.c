/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/topo.h"

#include <stdio.h>

#define LIST_MAX 512

static const char *cpus_text(const struct gf_cpus *cpus, char *buf, size_t size)
{
    return gf_set_empty(cpus) ? "none" : gf_set_format(cpus, buf, size);
}

/* Whether the node has nothing. Linux makes such nodes for memory that may be added later. */
static bool is_empty(const struct gf_node *node)
{
    return gf_set_empty(&node->cpus) && !node->has_memory && !node->is_device && node->package < 0;
}

/* Prints a node, or a run of empty nodes, in which `last` is the last one. */
static void print_node(const struct gf_node *node, const struct gf_node *last)
{
    char list[LIST_MAX];

    if (last == node)
        printf("node %-4u ", node->id);
    else
        printf("nodes %u-%u ", node->id, last->id);
    if (gf_set_empty(&node->cpus))
        printf("no CPUs");
    else
        printf("CPUs %s (%u)", cpus_text(&node->cpus, list, sizeof(list)),
               gf_set_count(&node->cpus));
    if (node->has_memory)
        printf(", %.1f GiB", (double)node->memory_bytes / (1024. * 1024. * 1024.));
    else
        printf(", no memory");
    if (node->is_device)
        printf(node->is_gpu ? ", memory of a GPU, not for host pages"
                            : ", memory without CPUs, used when other nodes are full");
    if (node->package >= 0)
        printf(", socket %d", node->package);
    putchar('\n');
}

static void print_gpu(const struct gf_topo_gpu *gpu)
{
    char list[LIST_MAX];

    printf("GPU %s", gpu->bdf);
    if (gpu->name[0])
        printf("  %s", gpu->name);
    if (!gpu->visible)
        printf(", hidden");
    else if (gpu->device >= 0)
        printf(", device %d", gpu->device);
    if (!gpu->source) {
        puts("\n    node unknown: /sys has neither the GPU's numa_node nor its local_cpulist; the "
             "library binds no thread to the GPU's node");
        return;
    }
    printf("\n    node %s (%s)", gf_set_format(&gpu->nodes, list, sizeof(list)), gpu->source);
    printf(", nearest CPUs %s", cpus_text(&gpu->cpus, list, sizeof(list)));
    if (gf_set_empty(&gpu->usable)) {
        printf("; this process may not use any of them");
        if (gpu->nearest >= 0)
            printf(", the nearest CPUs that it may use are on node %d", gpu->nearest);
    } else if (!gf_set_equal(&gpu->usable, &gpu->cpus)) {
        printf("; this process may use %s", cpus_text(&gpu->usable, list, sizeof(list)));
    }
    putchar('\n');
}

static void print_process(const struct gf_topo *topo)
{
    const struct gf_facts *facts = &topo->facts;
    char list[LIST_MAX];

    printf("this process\n    may use CPUs %s (%u)", cpus_text(&facts->start, list, sizeof(list)),
           gf_set_count(&facts->start));
    if (!gf_set_equal(&facts->start, &facts->cpuset))
        printf(" of %s", cpus_text(&facts->cpuset, list, sizeof(list)));
    printf(", memory of node %s\n", gf_set_empty(&facts->mems)
                                        ? "unknown"
                                        : gf_set_format(&facts->mems, list, sizeof(list)));
    if (facts->cpu_quota > 0)
        printf("    has a CPU quota of %.1f CPUs\n", facts->cpu_quota);
    if (facts->pinning_source)
        printf("    has threads pinned by %s\n", facts->pinning_source);
    if (facts->binder_source)
        printf("    is bound by %s\n", facts->binder_source);
    if (facts->rank.local_rank >= 0 && facts->rank.local_size > 0)
        printf("    is local rank %d of %d (%s)\n", facts->rank.local_rank, facts->rank.local_size,
               facts->rank.source);
    else if (facts->rank.local_rank >= 0)
        printf("    is local rank %d (%s)\n", facts->rank.local_rank, facts->rank.source);
    if (facts->start_policy < 0)
        puts("    may not set memory policies: a page is on the node of the thread that touches it "
             "first");
}

void gf_topo_print(const struct gf_topo *topo)
{
    const struct gf_machine *machine = topo->machine;

    if (machine->recorded)
        puts("a recorded machine");
    for (size_t i = 0, last; i < machine->node_count; i = last + 1) {
        last = i;
        while (last + 1 < machine->node_count && is_empty(&machine->nodes[i]) &&
               is_empty(&machine->nodes[last + 1]) &&
               machine->nodes[last + 1].id == machine->nodes[last].id + 1)
            last++;
        print_node(&machine->nodes[i], &machine->nodes[last]);
    }
    for (size_t i = 0; i < topo->gpu_count; i++)
        print_gpu(&topo->gpus[i]);
    if (!topo->gpu_count)
        puts("no NVIDIA GPU");
    else if (topo->visible.doubt)
        printf("CUDA may number the GPUs in another order: %s\n", topo->visible.doubt);
    print_process(topo);
}
