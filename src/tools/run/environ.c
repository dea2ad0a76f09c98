/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/launch.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>

void gf_env_set(const char *name, const char *value)
{
    unsetenv(name);
    if (value && setenv(name, value, 1))
        gf_cli_memory(NULL);
}

/*
 * Whether the mask contains all CPUs of the cpuset. If so, no launcher has narrowed the mask, and
 * all ranks share its CPUs.
 */
static bool is_whole(const struct gf_cpus *mask)
{
    struct gf_cpus all;

    if (gf_cgroup_cpuset("", &all) == 0)
        return gf_set_count(mask) >= gf_set_count(&all);
    return gf_set_count(mask) >= (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

void gf_thread_count_apply(const struct gf_cpus *start, bool one_gpu)
{
    struct gf_rank rank;
    struct gf_cpus bound;

    gf_launch_rank(environ, &rank);
    if (getenv(GF_LAUNCH_OMP_THREADS) || (rank.local_size < 1 && !one_gpu) ||
        gf_tasks_get_mask(0, &bound))
        return;
    const unsigned count = gf_facts_thread_count(start, &bound, gf_cgroup_quota(""),
                                                 is_whole(start) ? rank.local_size : 1);
    gf_env_set(GF_LAUNCH_OMP_THREADS, gf_text("%u", count));
}
