/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/probe.h"

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

static void *run_probe(void *arg)
{
    const struct job *job = arg;
    struct gf_probe *result = job->result;
    struct gf_nodes nodes = {0};
    const int mode = gf_mempolicy_get();

    gf_set_add(&nodes, job->node);
    result->set_affinity = -gf_tasks_set_mask(0, job->cpus);
    result->get_mempolicy = mode < 0 ? -mode : 0;
    /* The thread's policy ends with the thread, so it need not be restored. */
    result->set_mempolicy = -gf_mempolicy_set(GF_MPOL_PREFERRED, &nodes);
    result->preferred_many = -gf_mempolicy_set(GF_MPOL_PREFERRED_MANY, &nodes);
    result->mbind = probe_mbind(&nodes);
    return NULL;
}

static int plain_thread(pthread_t *ret, void *(*run)(void *), void *arg)
{
    return pthread_create(ret, NULL, run, arg);
}

void gf_probe_run(int (*create)(pthread_t *ret, void *(*run)(void *), void *arg), unsigned node,
                  const struct gf_cpus *cpus, struct gf_probe *ret)
{
    struct job job = {node, cpus, ret};
    pthread_t thread;

    *ret = (struct gf_probe){GF_UNTRIED, GF_UNTRIED, GF_UNTRIED, GF_UNTRIED, GF_UNTRIED};
    if ((create ? create : plain_thread)(&thread, run_probe, &job) == 0)
        pthread_join(thread, NULL);
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
