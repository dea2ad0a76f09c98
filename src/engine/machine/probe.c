/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/probe.h"

#include "engine/machine/child_call.h"
#include "engine/machine/mempolicy.h"
#include "engine/machine/tasks.h"

#include <sys/mman.h>
#include <unistd.h>

struct job {
    unsigned node;
    const struct gf_cpus *cpus;
    struct gf_probe *result;
};

static int probe_mbind(const struct gf_nodes *nodes)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return errno;
    const int error = gf_mempolicy_set_range(page, size, GF_MPOL_PREFERRED, nodes);
    munmap(page, size);
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
