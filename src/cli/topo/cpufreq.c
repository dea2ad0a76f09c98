/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/cpufreq.h"

#include "host/machine.h"
#include "host/machine_load.h"
#include "os/procfs.h"

#include <stdio.h>
#include <string.h>

static const char *const files[] = {
    [gf_cpufreq_governor] = "scaling_governor",
    [gf_cpufreq_preference] = "energy_performance_preference",
    [gf_cpufreq_affected] = "affected_cpus",
};

const char *gf_cpufreq_path(unsigned cpu, enum gf_cpufreq_file file, char *buf, size_t size)
{
    snprintf(buf, size, "sys/devices/system/cpu/cpu%u/cpufreq/%s", cpu, files[file]);
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

int gf_cpufreq_record(const char *folder)
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
        for (size_t i = 0; i < GF_ARRAY_LEN(files) && !error; i++)
            error = gf_record_file(folder, gf_cpufreq_path((unsigned)cpu, (enum gf_cpufreq_file)i,
                                                           path, sizeof(path)));
    }
    return error;
}
