/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/host_files.h"

#include "host/machine_load.h"
#include "os/procfs.h"

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

int gf_host_files_record(const char *folder)
{
    int error = record_each(folder, gf_host_files, GF_ARRAY_LEN(gf_host_files));
    if (!error)
        error = record_each(folder, other_files, GF_ARRAY_LEN(other_files));
    return error ? error
                 : record_each(folder, gf_thp_shared_files, GF_ARRAY_LEN(gf_thp_shared_files));
}
