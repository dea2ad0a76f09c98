/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/facts.h"

#include "os/cgroup.h"
#include "engine/machine/allowed.h"
#include "os/launch.h"
#include "engine/machine/mempolicy.h"
#include "os/procfs.h"
#include "engine/machine/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void read_cpuset(const char *root, struct gf_facts *ret)
{
    struct gf_cpus online = {0}, isolated = {0}, *kept = &ret->isolated;

    if (gf_procfs_cpus(&online, root, "sys/devices/system/cpu/online"))
        online = ret->start;
    const bool is_this_machine = !root || !*root;
    /*
     * In a container without /sys/fs/cgroup, no file shows the allowed CPUs. Then gf_allowed_cpus
     * tries them.
     */
    if (gf_cgroup_cpuset(root, &ret->cpuset) && (!is_this_machine || gf_allowed_cpus(&ret->cpuset)))
        ret->cpuset = online;
    gf_set_and(&ret->cpuset, &ret->cpuset, &online);
    /*
     * A default mask never includes isolated CPUs. So they are removed from the cpuset if the start
     * mask has none of them. Otherwise the start mask would count as narrowed.
     */
    if (gf_procfs_cpus(&isolated, root, "sys/devices/system/cpu/isolated") == 0 &&
        !gf_set_meet(&isolated, &ret->start)) {
        gf_set_and(kept, &isolated, &ret->cpuset);
        for (size_t i = 0; i < GF_ARRAY_LEN(kept->word); i++)
            ret->cpuset.word[i] &= ~kept->word[i];
    }
}

static void read_status(const char *root, struct gf_facts *ret)
{
    char text[8192];
    const char *field;

    if (gf_procfs_read(text, sizeof(text), root, "proc/self/status") < 0)
        return;
    if ((field = gf_procfs_field(text, "Threads")))
        ret->threads = (unsigned)strtoul(field, NULL, 10);
    if ((field = gf_procfs_field(text, "Mems_allowed_list"))) {
        char list[1024];
        const size_t length = gf_min(strcspn(field, "\n"), sizeof(list) - 1);
        memcpy(list, field, length);
        list[length] = '\0';
        gf_set_parse(list, &ret->mems);
    }
}

static void read_policy(const char *root, struct gf_facts *ret)
{
    int mode;

    ret->start_policy = root && *root ? -ENOSYS : gf_mempolicy_get();
    if (ret->start_policy > GF_MPOL_DEFAULT)
        gf_mempolicy_read(&mode, &ret->start_policy_nodes);
}

void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret)
{
    char text[16];

    memset(ret, 0, sizeof(*ret));
    ret->start = *start;
    read_cpuset(root, ret);
    read_status(root, ret);
    ret->cpu_quota = gf_cgroup_quota(root);
    read_policy(root, ret);
    ret->pinning_source = gf_launch_pinning(envp);
    ret->single_cpu_pinning = ret->pinning_source != NULL;
    ret->binder_source = gf_launch_binder(root, envp);
    gf_launch_rank(envp, &ret->rank);
    ret->numa_balancing =
        gf_procfs_read(text, sizeof(text), root, "proc/sys/kernel/numa_balancing") > 0 &&
        strcmp(text, "0") != 0;
}
