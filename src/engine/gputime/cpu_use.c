/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/cpu_use.h"

#include "base/atomic.h"
#include "base/cpus.h"

#include <sys/syscall.h>
#include <unistd.h>

static struct {
    uint64_t at_ns, cpu_ns, preempted_ns; /* of the last call; at_ns is 0 before the first one */
    _Atomic uint64_t ns, own_ns;
} use;

void gf_cpu_use_add(uint64_t now, uint64_t cpu_ns, uint64_t preempted_ns)
{
    const uint64_t passed = now - use.at_ns;

    if (use.at_ns && 2 * (preempted_ns - use.preempted_ns) > passed) {
        gf_add_relaxed(&use.ns, passed);
        gf_add_relaxed(&use.own_ns, cpu_ns - use.cpu_ns);
    }
    use.at_ns = now;
    use.cpu_ns = cpu_ns;
    use.preempted_ns = preempted_ns;
}

void gf_cpu_use_read(struct gf_cpu_use *ret)
{
    *ret = (struct gf_cpu_use){.ns = gf_load_relaxed(&use.ns),
                               .own_ns = gf_load_relaxed(&use.own_ns),
                               .cpus = gf_cpu_use_cpus()};
}

unsigned gf_cpu_use_cpus(void)
{
    struct gf_cpus cpus = {0};
    /* libc's cpu_set_t is too small for a kernel with more than 1024 possible CPUs. */
    const long size = syscall(SYS_sched_getaffinity, getpid(), sizeof(cpus), cpus.word);
    return size > 0 ? gf_set_count(&cpus) : 1;
}
