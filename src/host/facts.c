/* SPDX-License-Identifier: Apache-2.0 */
#include "host/facts.h"

#include "base/fmt.h"
#include "host/mempolicy.h"
#include "host/tasks.h"
#include "os/cgroup.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>

int gf_child_call(int (*function)(void *closure), void *closure)
{
    _Alignas(16) char stack[16384];
    gf_keep_errno();
    uint64_t all = ~UINT64_C(0), before;

    /*
     * All signals are blocked, so the child runs no signal handler of the program. It sends no
     * signal when it exits.
     */
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all)))
        return -errno;
    const pid_t pid = clone(function, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, closure);
    const int failed = pid < 0 ? -errno : 0;
    /* A raw system call, because libc's waitpid is a cancellation point. */
    while (pid > 0 && syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return failed;
}

struct query {
    struct gf_cpus allowed;
    int error;
};

static int query_in_child(void *arg)
{
    struct query *query = arg;
    struct gf_cpus all;

    memset(&all, 0xff, sizeof(all));
    query->error = gf_tasks_set_mask(0, &all);
    if (!query->error)
        query->error = gf_tasks_get_mask(0, &query->allowed);
    return 0;
}

int gf_allowed_cpus(struct gf_cpus *ret)
{
    struct query query = {.error = -EAGAIN};

    if (!gf_permit(gf_permit_set_affinity))
        return -EPERM;
    const int failed = gf_child_call(query_in_child, &query);
    if (failed || query.error)
        return failed ? failed : query.error;
    *ret = query.allowed;
    return 0;
}

static void read_cpuset(const char *root, struct gf_facts *ret)
{
    struct gf_cpus online = {0}, isolated = {0}, *kept = &ret->isolated;

    if (gf_procfs_set(&online, root, "sys/devices/system/cpu/online"))
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
    if (gf_procfs_set(&isolated, root, "sys/devices/system/cpu/isolated") == 0 &&
        !gf_set_meet(&isolated, &ret->start)) {
        gf_set_and(kept, &isolated, &ret->cpuset);
        for (size_t i = 0; i < GF_ARRAY_LEN(kept->word); i++)
            ret->cpuset.word[i] &= ~kept->word[i];
    }
}

static void read_status(const char *root, struct gf_facts *ret)
{
    char text[8192], list[1024];
    const char *field;

    if (gf_procfs_read(text, sizeof(text), root, "proc/self/status") < 0)
        return;
    if ((field = gf_procfs_field(text, "Threads")))
        ret->threads = (unsigned)strtoul(field, NULL, 10);
    if (gf_procfs_copy(text, "Mems_allowed_list", list, sizeof(list)))
        gf_set_parse(list, &ret->mems);
}

void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret)
{
    char text[16];
    int mode;

    memset(ret, 0, sizeof(*ret));
    ret->start = *start;
    read_cpuset(root, ret);
    read_status(root, ret);
    ret->cpu_quota = gf_cgroup_quota(root);
    ret->start_policy = root && *root ? -ENOSYS : gf_mempolicy_get();
    if (ret->start_policy > GF_MPOL_DEFAULT)
        gf_mempolicy_read(&mode, &ret->start_policy_nodes);
    ret->pinning_source = gf_launch_pinning(envp);
    ret->binder_source = gf_launch_binder(root, envp);
    gf_fmt(ret->mps_threads, sizeof(ret->mps_threads), "%s",
           gf_launch_variable(envp, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") ?: "");
    gf_fmt(ret->mps_memory, sizeof(ret->mps_memory), "%s",
           gf_launch_variable(envp, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") ?: "");
    gf_launch_rank(envp, &ret->rank);
    ret->numa_balancing =
        gf_procfs_read(text, sizeof(text), root, "proc/sys/kernel/numa_balancing") > 0 &&
        strcmp(text, "0") != 0;
}

struct job {
    unsigned node;
    const struct gf_cpus *cpus;
    struct gf_probe *result;
};

static int probe_mbind(const struct gf_nodes *nodes)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = gf_scratch_take(size);

    if (!page)
        return errno;
    const int error = gf_mempolicy_set_range(page, size, GF_MPOL_PREFERRED, nodes);
    gf_scratch_give(page, size);
    return -error;
}

void gf_probe_here(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret)
{
    struct gf_nodes nodes = {0};
    const int mode = gf_mempolicy_get();

    gf_set_add(&nodes, node);
    ret->set_affinity = -gf_tasks_set_mask(0, cpus);
    ret->get_mempolicy = mode < 0 ? -mode : 0;
    ret->set_mempolicy = -gf_mempolicy_set(GF_MPOL_PREFERRED, &nodes);
    ret->preferred_many = -gf_mempolicy_set(GF_MPOL_PREFERRED_MANY, &nodes);
    ret->mbind = probe_mbind(&nodes);
}

static int probe_in_child(void *arg)
{
    const struct job *job = arg;

    gf_probe_here(job->node, job->cpus, job->result);
    return 0;
}

void gf_probe_run(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret)
{
    struct job job = {node, cpus, ret};

    *ret = (struct gf_probe){GF_UNTRIED, GF_UNTRIED, GF_UNTRIED, GF_UNTRIED, GF_UNTRIED};
    gf_child_call(probe_in_child, &job);
}

const char *gf_probe_remedy(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
    case ENOSYS:
        return "docker run --cap-add SYS_NICE (Kubernetes: securityContext.capabilities.add: "
               "[SYS_NICE])";
    case EINVAL:
        return "allow the node's memory: docker run --cpuset-mems, cgroup cpuset.mems";
    }
    return NULL;
}

unsigned gf_facts_thread_count(const struct gf_cpus *start, const struct gf_cpus *bound,
                               double quota, int ranks)
{
    unsigned count = gf_set_count(start);

    if (quota > 0 && quota < count)
        count = (unsigned)quota;
    if (ranks > 1)
        count /= (unsigned)ranks;
    if (count > gf_set_count(bound))
        count = gf_set_count(bound);
    return count ? count : 1;
}
