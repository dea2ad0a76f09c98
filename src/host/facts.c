/* SPDX-License-Identifier: Apache-2.0 */
#include "host/facts.h"

#include "base/parse.h"
#include "host/cgroup.h"
#include "host/launch.h"
#include "host/policy.h"
#include "host/sysfile.h"
#include "host/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void read_cpuset(const char *root, struct gf_facts *ret)
{
    struct gf_cpus online = {0}, isolated = {0};

    if (gf_sysfile_cpus(&online, root, "sys/devices/system/cpu/online"))
        online = ret->start;
    const bool here = !root || !*root;
    /* Where no file tells (a container without /sys/fs/cgroup) the kernel does. */
    if (gf_cgroup_cpuset(root, &ret->cpuset) && (!here || gf_tasks_allowed(&ret->cpuset)))
        ret->cpuset = online;
    gf_set_and(&ret->cpuset, &ret->cpuset, &online);
    /* Isolated CPUs are in no mask by birth; that they are missing is nobody's narrowing. */
    if (gf_sysfile_cpus(&isolated, root, "sys/devices/system/cpu/isolated") == 0 &&
        !gf_set_meet(&isolated, &ret->start))
        for (size_t i = 0; i < GF_ARRAY_LEN(isolated.word); i++)
            ret->cpuset.word[i] &= ~isolated.word[i];
}

static void read_status(const char *root, struct gf_facts *ret)
{
    char text[8192];
    const char *field;

    if (gf_sysfile_read(text, sizeof(text), root, "proc/self/status") < 0)
        return;
    if ((field = gf_sysfile_field(text, "Threads")))
        ret->threads = (unsigned)strtoul(field, NULL, 10);
    if ((field = gf_sysfile_field(text, "Mems_allowed_list"))) {
        char list[1024];
        const size_t length = gf_min(strcspn(field, "\n"), sizeof(list) - 1);
        memcpy(list, field, length);
        list[length] = '\0';
        gf_set_parse(list, &ret->mems);
    }
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
    ret->start_policy = root && *root ? -ENOSYS : gf_policy_get();
    gf_launch_pinning(envp, ret);
    gf_launch_binder(root, envp, ret);
    gf_launch_rank(envp, &ret->rank);
    ret->numa_balancing =
        gf_sysfile_read(text, sizeof(text), root, "proc/sys/kernel/numa_balancing") > 0 &&
        strcmp(text, "0") != 0;
}
