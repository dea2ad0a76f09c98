/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo/recording.h"

#include "host/machine.h"
#include "host/machine_load.h"
#include "os/procfs.h"
#include "tools/topo/visible_gpus.h"

#include <dirent.h>
#include <stdio.h>

static const char *const frequency_files[] = {
    [gf_cpufreq_governor] = "scaling_governor",
    [gf_cpufreq_preference] = "energy_performance_preference",
    [gf_cpufreq_affected] = "affected_cpus",
};

const char *gf_cpufreq_path(unsigned cpu, enum gf_cpufreq_file file, char *buf, size_t size)
{
    snprintf(buf, size, "sys/devices/system/cpu/cpu%u/cpufreq/%s", cpu, frequency_files[file]);
    return buf;
}

int gf_cpufreq_read(const char *root, unsigned cpu, enum gf_cpufreq_file file, char *buf,
                    size_t size)
{
    char path[128];
    return gf_procfs_read(buf, size, root, "%s", gf_cpufreq_path(cpu, file, path, sizeof(path)));
}

void gf_cpufreq_policy(const char *root, unsigned cpu, struct gf_cpus *ret)
{
    char text[8192];

    *ret = (struct gf_cpus){0};
    if (gf_cpufreq_read(root, cpu, gf_cpufreq_affected, text, sizeof(text)) > 0) {
        /* The kernel separates the CPUs in this file by blanks, not by commas. */
        for (char *space = text; (space = strchr(space, ' '));)
            *space = ',';
        gf_set_parse(text, ret);
    }
    gf_set_add(ret, cpu);
}

/* Copies the files of each policy's first online CPU into the folder. Returns 0 or -errno. */
static int gf_cpufreq_record(const char *folder)
{
    struct gf_cpus online = {0}, seen = {0}, policy;
    char path[128];
    int error = 0;

    gf_procfs_cpus(&online, "", "sys/devices/system/cpu/online");
    for (int cpu = gf_set_next(&online, 0); cpu >= 0;
         cpu = gf_set_next(&online, (unsigned)cpu + 1)) {
        if (gf_set_test(&seen, (unsigned)cpu))
            continue;
        gf_cpufreq_policy("", (unsigned)cpu, &policy);
        gf_set_or(&seen, &seen, &policy);
        for (size_t i = 0; i < GF_ARRAY_LEN(frequency_files) && !error; i++)
            error = gf_record_file(folder, gf_cpufreq_path((unsigned)cpu, (enum gf_cpufreq_file)i,
                                                           path, sizeof(path)));
    }
    return error;
}

/* Files of PCI devices and idle states that `gpufeed doctor` checks and a recording contains. */

#define DEVICES "sys/bus/pci/devices"
#define IDLE_STATES_MAX 16

static int record_each_device(const char *folder, const char *prefix, const char *const *files,
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
        return record_each_device(folder, prefix, of_bridge, GF_ARRAY_LEN(of_bridge));
    if (strncmp(class, "0x03", 4) != 0 && strncmp(class, "0x02", 4) != 0 &&
        strncmp(class, "0x0108", 6) != 0)
        return 0;
    const int error = record_each_device(folder, prefix, of_device, GF_ARRAY_LEN(of_device));
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
        error = record_each_device(folder, prefix, of_state, GF_ARRAY_LEN(of_state));
    }
    return error;
}

/* Copies the files into the folder. 0 or -errno; a file that is missing here is skipped. */
static int gf_host_devices_record(const char *folder)
{
    const int error = for_each(folder, DEVICES, record_device);
    return error ? error : record_idle_states(folder);
}

const char *const gf_host_files[] = {
    [gf_host_release] = "proc/sys/kernel/osrelease",
    [gf_host_thp_enabled] = "sys/kernel/mm/transparent_hugepage/enabled",
    [gf_host_thp_defrag] = "sys/kernel/mm/transparent_hugepage/defrag",
    [gf_host_zone_reclaim] = "proc/sys/vm/zone_reclaim_mode",
    [gf_host_numa_balancing] = "proc/sys/kernel/numa_balancing",
    [gf_host_swappiness] = "proc/sys/vm/swappiness",
    [gf_host_swaps] = "proc/swaps",
    [gf_host_meminfo] = "proc/meminfo",
};

/* Further files that a recording contains. The checks that read these files repeat their names. */
static const char *const other_files[] = {
    "proc/cmdline",
    "proc/driver/nvidia/version",
    "proc/self/mountinfo",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/overcommit_memory",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "var/lib/kubelet/cpu_manager_state",
};

static int record_each(const char *folder, const char *const *files, size_t count)
{
    int error = 0;

    for (size_t i = 0; i < count && !error; i++)
        error = gf_record_file(folder, files[i]);
    return error;
}

/*
 * Copies all files that checks read, including the files of os/procfs.h, into the folder. Returns 0 or
 * -errno.
 */
static int gf_host_files_record(const char *folder)
{
    int error = record_each(folder, gf_host_files, GF_ARRAY_LEN(gf_host_files));
    if (!error)
        error = record_each(folder, other_files, GF_ARRAY_LEN(other_files));
    return error ? error
                 : record_each(folder, gf_thp_shared_files, GF_ARRAY_LEN(gf_thp_shared_files));
}

int gf_recording_write(const char *folder)
{
    /* gf_record_machine creates the folder, so it is called first. */
    static int (*const parts[])(const char *folder) = {
        gf_record_machine,      gf_visible_gpus_record, gf_host_files_record,
        gf_host_devices_record, gf_cpufreq_record,
    };
    int error = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(parts) && !error; i++)
        error = parts[i](folder);
    return error;
}
