/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/thread_count.h"

#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/launch.h"

#include <stdio.h>
#include <unistd.h>

#define VARIABLE "OMP_NUM_THREADS"

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

unsigned gf_thread_count_apply(struct gf_env *env, const struct gf_cpus *start, bool one_gpu)
{
    struct gf_rank rank;
    struct gf_cpus bound;
    char text[16];

    gf_launch_rank(env->entries, &rank);
    if (gf_env_get(env, VARIABLE) || (rank.local_size < 1 && !one_gpu) ||
        gf_tasks_get_mask(0, &bound))
        return 0;
    const double quota = gf_cgroup_quota("");
    unsigned count = gf_set_count(start);
    if (quota > 0 && quota < count)
        count = (unsigned)quota;
    if (rank.local_size > 1 && is_whole(start))
        count /= (unsigned)rank.local_size;
    if (count > gf_set_count(&bound))
        count = gf_set_count(&bound);
    if (count < 1)
        count = 1;
    snprintf(text, sizeof(text), "%u", count);
    gf_env_set(env, VARIABLE, text);
    return count;
}
