/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/launch.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <stdlib.h>

void gf_env_copy(char *const *envp, struct gf_env *ret)
{
    ret->count = 0;
    while (envp[ret->count])
        ret->count++;
    ret->entries = gf_cli_alloc(ret->count + 1, sizeof(char *));
    memcpy(ret->entries, envp, ret->count * sizeof(char *));
}

void gf_env_free(struct gf_env *env)
{
    free(env->entries);
    env->entries = NULL;
    env->count = 0;
}

const char *gf_env_get(const struct gf_env *env, const char *name)
{
    return gf_launch_variable(env->entries, name);
}

void gf_env_set(struct gf_env *env, const char *name, const char *value)
{
    const size_t length = strlen(name);
    size_t kept = 0;

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->entries[i], name, length) != 0 || env->entries[i][length] != '=')
            env->entries[kept++] = env->entries[i];
    if (value) {
        /* Two more entries: the new value and the final NULL. */
        env->entries = gf_cli_memory(realloc(env->entries, (kept + 2) * sizeof(char *)));
        char *entry = gf_cli_memory(malloc(length + strlen(value) + 2));
        memcpy(entry, name, length);
        entry[length] = '=';
        strcpy(entry + length + 1, value);
        env->entries[kept++] = entry; /* never freed: lives until exec */
    }
    env->count = kept;
    env->entries[kept] = NULL;
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

void gf_thread_count_apply(struct gf_env *env, const struct gf_cpus *start, bool one_gpu)
{
    struct gf_rank rank;
    struct gf_cpus bound;

    gf_launch_rank(env->entries, &rank);
    if (gf_env_get(env, GF_LAUNCH_OMP_THREADS) || (rank.local_size < 1 && !one_gpu) ||
        gf_tasks_get_mask(0, &bound))
        return;
    const unsigned count = gf_facts_thread_count(start, &bound, gf_cgroup_quota(""),
                                                 is_whole(start) ? rank.local_size : 1);
    gf_env_set(env, GF_LAUNCH_OMP_THREADS, gf_text("%u", count));
}
