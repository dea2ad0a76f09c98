/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's cpufreq files. The CPUs of a policy share the values in these files. */
#ifndef GF_CLI_TOPO_CPUFREQ_H
#define GF_CLI_TOPO_CPUFREQ_H

#include "base/cpus.h"

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

/* Copies the files of each policy's first online CPU into the folder. Returns 0 or -errno. */
int gf_cpufreq_record(const char *folder);

#endif
