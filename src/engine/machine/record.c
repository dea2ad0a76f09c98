/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/record.h"

#include "base/fmt.h"
#include "engine/machine/machine_load.h"
#include "engine/machine/pci.h"
#include "engine/machine/topology.h"
#include "os/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Creates the parent folders of the file at path. During the call, path is modified. Returns 0 or
 * -errno.
 */
static int make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int failed = mkdir(path, 0777) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -errno;
    }
    return 0;
}

static int write_file(char *path, const char *text, size_t length)
{
    const int error = make_parents(path);
    if (error)
        return error;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    const ssize_t written = write(fd, text, length);
    const int result = written == (ssize_t)length ? 0 : written < 0 ? -errno : -EIO;
    close(fd);
    return result;
}

int gf_record_file(const char *folder, const char *name)
{
    char text[8192], path[GF_PROCFS_PATH_MAX];
    const int length = gf_procfs_read(text, sizeof(text) - 1, "", "%s", name);

    if (length < 0)
        return 0;
    text[length] = '\n';
    gf_fmt(path, sizeof(path), "%s/%s", folder, name);
    return write_file(path, text, (size_t)length + 1);
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

int gf_record_machine(const char *folder)
{
    char path[GF_PROCFS_PATH_MAX];
    struct gf_machine *machine;
    struct hwloc_topology *topology;

    if ((size_t)gf_fmt(path, sizeof(path), "%s/topology.xml", folder) >= sizeof(path) - 128)
        return -ENAMETOOLONG;
    int error = make_parents(path);
    if (error || (error = gf_machine_load(NULL, &machine)))
        return error;
    if (!(error = gf_topology_open(NULL, &topology))) {
        error = gf_topology_export(topology, path);
        gf_topology_close(topology);
    }
    if (!error)
        error = record_system(folder, machine);
    gf_machine_free(machine);
    return error;
}
