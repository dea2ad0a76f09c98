/* SPDX-License-Identifier: Apache-2.0 */

#include "host/machine_load.h"
#include "os/procfs.h"
#include "tools/common/text.h"
#include "tools/topo/topo.h"

/* Files with kernel settings. The checks that read these files repeat their names. */
static const char *const host_files[] = {
    "proc/cmdline",
    "proc/driver/nvidia/version",
    "proc/meminfo",
    "proc/self/mountinfo",
    "proc/swaps",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/zone_reclaim_mode",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "var/lib/kubelet/cpu_manager_state",
    NULL,
};

/* Copies all files that checks read, including the files of os/procfs.h. */
static int record_settings(const char *folder)
{
    const int error = gf_record_files(folder, "", host_files);
    return error ? error
                 : GF_RECORD_FILES(folder, "", gf_thp_shared_files[0], gf_thp_shared_files[1]);
}

void gf_cpufreq_policy(const char *root, unsigned cpu, struct gf_cpus *ret)
{
    char text[8192];

    *ret = (struct gf_cpus){0};
    if (gf_procfs_read(text, sizeof(text), root, GF_CPUFREQ "affected_cpus", cpu) > 0) {
        /* The kernel separates the CPUs in this file by blanks, not by commas. */
        for (char *space = text; (space = strchr(space, ' '));)
            *space = ',';
        gf_set_parse(text, ret);
    }
    gf_set_add(ret, cpu);
}

/* Copies the files of each policy's first online CPU. */
static int record_clocks(const char *folder)
{
    struct gf_cpus online = {0}, seen = {0}, policy;
    int error = 0;

    gf_procfs_set(&online, "", "sys/devices/system/cpu/online");
    for (int cpu = gf_set_next(&online, 0); cpu >= 0 && !error;
         cpu = gf_set_next(&online, (unsigned)cpu + 1)) {
        if (gf_set_test(&seen, (unsigned)cpu))
            continue;
        gf_cpufreq_policy("", (unsigned)cpu, &policy);
        gf_set_or(&seen, &seen, &policy);
        error = GF_RECORD_FILES(folder, gf_text(GF_CPUFREQ, (unsigned)cpu), "scaling_governor",
                                "energy_performance_preference", "affected_cpus");
    }
    return error;
}

#define DEVICES "sys/bus/pci/devices"
#define IDLE_STATES_MAX 16

/* Calls `record` for each entry of a folder of this system whose name begins with a digit. */
static int for_each(const char *folder, const char *path,
                    int (*record)(const char *folder, const char *path, const char *entry))
{
    int error = 0;

    GF_FOLDER(entries, gf_text("/%s", path));
    for (const char *name; !error && (name = gf_folder_next(&entries));)
        if (*name >= '0' && *name <= '9' && strlen(name) < 32)
            error = record(folder, path, name);
    return error;
}

static int record_interrupt(const char *folder, const char *path, const char *number)
{
    const int error = gf_record_file(folder, gf_text("%s/%s", path, number));
    return error ? error
                 : gf_record_file(folder, gf_text("proc/irq/%s/effective_affinity_list", number));
}

/* GPUs, network cards, NVMe disks, and the bridges of PCIe switches. */
static int record_device(const char *folder, const char *path, const char *bdf)
{
    char prefix[128], class[16];

    snprintf(prefix, sizeof(prefix), "%s/%s/", path, bdf);
    if (gf_procfs_read(class, sizeof(class), "", "%sclass", prefix) <= 0)
        return 0;
    if (strncmp(class, "0x0604", 6) == 0)
        return GF_RECORD_FILES(folder, prefix, "class", "config");
    if (strncmp(class, "0x03", 4) != 0 && strncmp(class, "0x02", 4) != 0 &&
        strncmp(class, "0x0108", 6) != 0)
        return 0;
    const int error =
        GF_RECORD_FILES(folder, prefix, "class", "vendor", "numa_node", "local_cpulist");
    snprintf(prefix, sizeof(prefix), "%s/%s/msi_irqs", path, bdf);
    return error ? error : for_each(folder, prefix, record_interrupt);
}

/* The check of idle states reads those of the first CPU. */
static int record_idle_states(const char *folder)
{
    struct gf_cpus online;
    int error = 0;

    if (gf_procfs_set(&online, "", "sys/devices/system/cpu/online"))
        return 0;
    for (unsigned i = 0; i < IDLE_STATES_MAX && !error; i++)
        error = GF_RECORD_FILES(
            folder,
            gf_text("sys/devices/system/cpu/cpu%d/cpuidle/state%u/", gf_set_next(&online, 0), i),
            "name", "latency", "disable");
    return error;
}

static int record_devices(const char *folder)
{
    return for_each(folder, DEVICES, record_device);
}

int gf_recording_write(const char *folder)
{
    /* gf_record_machine creates the folder, so it is called first. */
    static int (*const parts[])(const char *folder) = {
        gf_record_machine, gf_visible_gpus_record, record_settings,
        record_devices,    record_idle_states,     record_clocks,
    };
    int error = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(parts) && !error; i++)
        error = parts[i](folder);
    return error;
}
