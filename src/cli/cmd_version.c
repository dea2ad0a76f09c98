/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>

int gf_cmd_version(int argc, char **argv)
{
    if (argc > 1) {
        puts("Usage: gpufeed --version");
        return argv[1][0] == '-' ? GF_EXIT_OK : GF_EXIT_USAGE;
    }
    printf("gpufeed %s (jemalloc %s, hwloc %s, libnuma %s)\n", GF_VERSION, GF_JEMALLOC_VERSION,
           GF_HWLOC_VERSION, GF_NUMA_VERSION);
    return GF_EXIT_OK;
}
