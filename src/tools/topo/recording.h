/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a recording contains. */
#pragma once

#include "base/base.h"
#include "base/cpus.h"

/* The kernel's cpufreq files. The CPUs of a policy share the values in these files. */

enum gf_cpufreq_file {
    gf_cpufreq_governor,
    gf_cpufreq_preference, /* the energy preference of a CPU that chooses its clock itself */
    gf_cpufreq_affected,   /* the online CPUs of the policy */
};

/* Writes the path of a file below the root, without a leading slash. Returns buf. */
const char *gf_cpufreq_path(unsigned cpu, enum gf_cpufreq_file file, char *buf, size_t size);

/* Reads a file of the CPU below root ("": this system), as gf_procfs_read does. */
int gf_cpufreq_read(const char *root, unsigned cpu, enum gf_cpufreq_file file, char *buf,
                    size_t size);

/* Sets *ret to the CPUs that share this CPU's policy, including this CPU. */
void gf_cpufreq_policy(const char *root, unsigned cpu, struct gf_cpus *ret);

/* Files with kernel settings that `gpufeed doctor` checks and a recording contains. */

enum gf_host_file {
    gf_host_release,
    gf_host_thp_enabled,
    gf_host_thp_defrag,
    gf_host_zone_reclaim,
    gf_host_numa_balancing,
    gf_host_swappiness,
    gf_host_swaps,
    gf_host_meminfo,
};

/* Paths below the root, without a leading slash. */
extern const char *const gf_host_files[gf_host_meminfo + 1];

/* Recordings of machines, which --machine and GPUFEED_MACHINE read instead of this system's files. */

/* Records this machine in the folder, which is created if it is missing. Returns 0 or -errno. */
int gf_recording_write(const char *folder);
