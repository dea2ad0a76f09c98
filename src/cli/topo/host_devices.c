/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/host_devices.h"

#include "host/machine_load.h"
#include "os/procfs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define DEVICES "sys/bus/pci/devices"
#define IDLE_STATES_MAX 16

static int record_each(const char *folder, const char *prefix, const char *const *files,
                       size_t count)
{
    char name[192];
    int error = 0;

    for (size_t i = 0; i < count && !error; i++) {
        snprintf(name, sizeof(name), "%s/%s", prefix, files[i]);
        error = gf_record_file(folder, name);
    }
    return error;
}

/* Calls `record` for each entry of a folder of this system whose name begins with a digit. */
static int for_each(const char *folder, const char *path,
                    int (*record)(const char *folder, const char *path, const char *entry))
{
    char absolute[192];
    int error = 0;

    snprintf(absolute, sizeof(absolute), "/%s", path);
    DIR *entries = opendir(absolute);
    for (struct dirent *entry; entries && !error && (entry = readdir(entries));)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && strlen(entry->d_name) < 32)
            error = record(folder, path, entry->d_name);
    if (entries)
        closedir(entries);
    return error;
}

static int record_interrupt(const char *folder, const char *path, const char *number)
{
    char name[192];

    snprintf(name, sizeof(name), "%s/%s", path, number);
    const int error = gf_record_file(folder, name);
    snprintf(name, sizeof(name), "proc/irq/%s/effective_affinity_list", number);
    return error ? error : gf_record_file(folder, name);
}

/* GPUs, network cards, NVMe disks, and the bridges of PCIe switches. */
static int record_device(const char *folder, const char *path, const char *bdf)
{
    static const char *const of_bridge[] = {"class", "config"};
    static const char *const of_device[] = {"class", "vendor", "numa_node", "local_cpulist"};
    char prefix[128], class[16];

    snprintf(prefix, sizeof(prefix), "%s/%s", path, bdf);
    if (gf_procfs_read(class, sizeof(class), "", "%s/class", prefix) <= 0)
        return 0;
    if (strncmp(class, "0x0604", 6) == 0)
        return record_each(folder, prefix, of_bridge, GF_ARRAY_LEN(of_bridge));
    if (strncmp(class, "0x03", 4) != 0 && strncmp(class, "0x02", 4) != 0 &&
        strncmp(class, "0x0108", 6) != 0)
        return 0;
    const int error = record_each(folder, prefix, of_device, GF_ARRAY_LEN(of_device));
    snprintf(prefix, sizeof(prefix), "%s/%s/msi_irqs", path, bdf);
    return error ? error : for_each(folder, prefix, record_interrupt);
}

/* The check of idle states reads those of the first CPU. */
static int record_idle_states(const char *folder)
{
    static const char *const of_state[] = {"name", "latency", "disable"};
    char prefix[64];
    struct gf_cpus online;
    int error = 0;

    if (gf_procfs_cpus(&online, "", "sys/devices/system/cpu/online"))
        return 0;
    for (unsigned i = 0; i < IDLE_STATES_MAX && !error; i++) {
        snprintf(prefix, sizeof(prefix), "sys/devices/system/cpu/cpu%d/cpuidle/state%u",
                 gf_set_next(&online, 0), i);
        error = record_each(folder, prefix, of_state, GF_ARRAY_LEN(of_state));
    }
    return error;
}

int gf_host_devices_record(const char *folder)
{
    const int error = for_each(folder, DEVICES, record_device);
    return error ? error : record_idle_states(folder);
}
