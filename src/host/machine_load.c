/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine_load.h"

#include "base/fmt.h"
#include "base/output_file.h"
#include "host/topology.h"
#include "os/procfs.h"

#include <stdlib.h>

#define NODES "sys/devices/system/node"

static void read_node(const char *root, unsigned id, const struct gf_cpus *online,
                      struct gf_node *ret)
{
    char text[4096];

    ret->id = id;
    if (gf_procfs_read(text, sizeof(text), root, NODES "/node%u/cpulist", id) >= 0)
        gf_set_parse(text, &ret->cpus);
    gf_set_and(&ret->cpus, &ret->cpus, online);
    gf_procfs_read(text, sizeof(text), root, NODES "/node%u/meminfo", id);
    const char *total = strstr(text, "MemTotal:");
    ret->memory_bytes = total ? strtoull(total + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
    ret->has_memory = ret->memory_bytes > 0;
}

/*
 * Reads the nodes from /sys. Returns -ENOENT if /sys has none. Then the kernel was built without
 * NUMA, or the folder of the recorded machine contains only hwloc's file.
 */
static int read_nodes(const char *root, struct gf_machine *machine)
{
    struct gf_nodes online = {0};
    const int error = gf_procfs_set(&online, root, NODES "/online");

    if (error)
        return -ENOENT;
    struct gf_node *nodes = calloc(gf_set_count(&online), sizeof(*nodes));
    if (!nodes || gf_set_empty(&online)) {
        free(nodes);
        return gf_set_empty(&online) ? -ENOENT : -ENOMEM;
    }
    free(machine->nodes);
    machine->nodes = nodes;
    machine->node_count = 0;
    for (int id = gf_set_next(&online, 0); id >= 0; id = gf_set_next(&online, (unsigned)id + 1))
        read_node(root, (unsigned)id, &machine->online, &machine->nodes[machine->node_count++]);
    return 0;
}

static bool read_distances_of(const char *root, const struct gf_machine *machine, unsigned *ret,
                              unsigned id)
{
    char text[8192];
    char *at = text;

    if (gf_procfs_read(text, sizeof(text), root, NODES "/node%u/distance", id) < 0)
        return false;
    for (size_t i = 0; i < machine->node_count; i++) {
        char *end = NULL;
        ret[i] = (unsigned)strtoul(at, &end, 10);
        if (end == at)
            return false;
        at = end;
    }
    return true;
}

/* Reads the distances between nodes (SLIT). If a row is missing, no distances are stored. */
static int read_distances(const char *root, struct gf_machine *machine)
{
    const size_t n = machine->node_count;
    unsigned *distances = calloc(gf_max(n * n, (size_t)1), sizeof(*distances));

    if (!distances)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!read_distances_of(root, machine, distances + i * n, machine->nodes[i].id)) {
            free(distances);
            return 0;
        }
    }
    machine->distances = distances;
    return 0;
}

static void describe_nodes(struct gf_machine *machine)
{
    for (size_t i = 0; i < machine->node_count; i++) {
        struct gf_node *node = &machine->nodes[i];
        node->package = -1;
        for (size_t c = 0; c < machine->core_count && node->package < 0; c++)
            if (gf_set_meet(&machine->cores[c].cpus, &node->cpus))
                node->package = machine->cores[c].package;
        node->is_device = node->has_memory && gf_set_empty(&node->cpus);
    }
}

static void mark_gpu_memory(struct gf_machine *machine, long id)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (id >= 0 && machine->nodes[i].id == (unsigned long)id && machine->nodes[i].is_device)
            machine->nodes[i].is_gpu = true;
}

/*
 * Finds the nodes that consist of a GPU's own memory. The driver's file numa_status contains such a
 * node ("Node: 2"), or the GPU itself is on the node according to firmware. All other nodes without
 * CPUs remain usable for programs.
 */
static void find_gpu_memory(const char *root, struct gf_machine *machine)
{
    char text[512];

    for (size_t i = 0; i < machine->gpu_count; i++) {
        const struct gf_pci *gpu = &machine->gpus[i];
        mark_gpu_memory(machine, gpu->numa_node);
        if (gf_procfs_read(text, sizeof(text), root, GF_PCI_NUMA_STATUS, gpu->bdf) <= 0)
            continue;
        const char *node = strstr(text, "Node:");
        if (node)
            mark_gpu_memory(machine, strtol(node + strlen("Node:"), NULL, 10));
    }
}

static int fill_machine(const char *recorded, struct gf_machine *machine)
{
    const char *root = recorded ? recorded : "";
    int error = gf_topology_read(recorded, machine);

    if (error)
        return error;
    machine->recorded = *root != '\0';
    gf_procfs_set(&machine->online, root, "sys/devices/system/cpu/online");
    error = read_nodes(root, machine);
    if ((error && error != -ENOENT) || (error = read_distances(root, machine)))
        return error;
    describe_nodes(machine);
    if (!(error = gf_pci_gpus(root, machine)))
        find_gpu_memory(root, machine);
    return error;
}

int gf_machine_load(const char *recorded, struct gf_machine **ret)
{
    struct gf_machine *machine = calloc(1, sizeof(*machine));
    const int error = machine ? fill_machine(recorded, machine) : -ENOMEM;

    if (error) {
        gf_machine_free(machine);
        return error;
    }
    *ret = machine;
    return 0;
}

int gf_record_text(const char *folder, const char *name, const char *text, size_t length)
{
    char path[GF_PROCFS_PATH_MAX];

    if ((size_t)gf_fmt(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
        return -ENAMETOOLONG;
    return gf_output_replace(path, text, length, gf_output_folders);
}

int gf_record_file(const char *folder, const char *name)
{
    char text[8192];
    const int length = gf_procfs_read(text, sizeof(text) - 1, "", "%s", name);

    if (length < 0)
        return 0;
    text[length] = '\n';
    return gf_record_text(folder, name, text, (size_t)length + 1);
}

int gf_record_files(const char *folder, const char *prefix, const char *const *files)
{
    int error = 0;
    for (; *files && !error; files++) {
        char name[256];
        gf_fmt(name, sizeof(name), "%s%s", prefix, *files);
        error = gf_record_file(folder, name);
    }
    return error;
}

static int record_system(const char *folder, const struct gf_machine *machine)
{
    char prefix[128];
    int error = GF_RECORD_FILES(folder, "sys/devices/system/", "cpu/online", "cpu/isolated",
                                "node/online", "node/has_cpu", "node/has_memory");

    for (size_t i = 0; i < machine->node_count && !error; i++) {
        gf_fmt(prefix, sizeof(prefix), "sys/devices/system/node/node%u/", machine->nodes[i].id);
        error = GF_RECORD_FILES(folder, prefix, "cpulist", "distance", "meminfo");
    }
    for (size_t i = 0; i < machine->gpu_count && !error; i++) {
        gf_fmt(prefix, sizeof(prefix), "sys/bus/pci/devices/%s/", machine->gpus[i].bdf);
        error = GF_RECORD_FILES(folder, prefix, "vendor", "class", "device", "numa_node",
                                "local_cpulist", "current_link_width", "max_link_width",
                                "iommu_group/type");
        gf_fmt(prefix, sizeof(prefix), GF_PCI_NUMA_STATUS, machine->gpus[i].bdf);
        if (!error)
            error = gf_record_file(folder, prefix);
    }
    return error;
}

int gf_record_machine(const char *folder)
{
    struct gf_machine *machine;
    char *text = NULL;
    size_t length;
    int error = gf_machine_load(NULL, &machine);

    if (error)
        return error;
    if (!(error = gf_topology_export(&text, &length)) &&
        !(error = gf_record_text(folder, "topology.xml", text, length)))
        error = record_system(folder, machine);
    free(text);
    gf_machine_free(machine);
    return error;
}
