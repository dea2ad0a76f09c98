/* SPDX-License-Identifier: Apache-2.0 */
/* Files with kernel settings that `gpufeed doctor` checks and a recording contains. */
#ifndef GF_CLI_TOPO_HOST_FILES_H
#define GF_CLI_TOPO_HOST_FILES_H

#include "base/base.h"

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

/*
 * Copies all files that checks read, including the files of os/procfs.h, into the folder. Returns 0 or
 * -errno.
 */
int gf_host_files_record(const char *folder);

#endif
