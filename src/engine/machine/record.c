/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/record.h"

#include "base/fmt.h"
#include "base/output_file.h"
#include "engine/machine/machine_load.h"
#include "engine/machine/pci.h"
#include "engine/machine/topology.h"
#include "os/procfs.h"

#include <errno.h>
#include <stdlib.h>

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

static int record_files(const char *folder, const char *prefix, const char *const *files,
                        size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        char name[256];
        gf_fmt(name, sizeof(name), "%s/%s", prefix, files[i]);
        error = gf_record_file(folder, name);
    }
    return error;
}

static int record_system(const char *folder, const struct gf_machine *machine)
{
    static const char *const of_system[] = {"cpu/online", "cpu/isolated", "node/online",
                                            "node/has_cpu", "node/has_memory"};
    static const char *const of_node[] = {"cpulist", "distance", "meminfo"};
    static const char *const of_device[] = {"vendor",         "class",
                                            "device",         "numa_node",
                                            "local_cpulist",  "current_link_width",
                                            "max_link_width", "iommu_group/type"};
    char prefix[128];
    int error = record_files(folder, "sys/devices/system", of_system, GF_ARRAY_LEN(of_system));

    for (size_t i = 0; i < machine->node_count && !error; i++) {
        gf_fmt(prefix, sizeof(prefix), "sys/devices/system/node/node%u", machine->nodes[i].id);
        error = record_files(folder, prefix, of_node, GF_ARRAY_LEN(of_node));
    }
    for (size_t i = 0; i < machine->gpu_count && !error; i++) {
        gf_fmt(prefix, sizeof(prefix), "sys/bus/pci/devices/%s", machine->gpus[i].bdf);
        error = record_files(folder, prefix, of_device, GF_ARRAY_LEN(of_device));
        gf_fmt(prefix, sizeof(prefix), GF_PCI_NUMA_STATUS, machine->gpus[i].bdf);
        if (!error)
            error = gf_record_file(folder, prefix);
    }
    return error;
}

static int record_topology(const char *folder)
{
    struct hwloc_topology *topology;
    char *text;
    size_t length;
    int error = gf_topology_open(NULL, &topology);

    if (error)
        return error;
    error = gf_topology_export(topology, &text, &length);
    if (!error) {
        error = gf_record_text(folder, "topology.xml", text, length);
        free(text);
    }
    gf_topology_close(topology);
    return error;
}

int gf_record_machine(const char *folder)
{
    struct gf_machine *machine;
    int error = gf_machine_load(NULL, &machine);

    if (error)
        return error;
    error = record_topology(folder);
    if (!error)
        error = record_system(folder, machine);
    gf_machine_free(machine);
    return error;
}
