/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/step_facts.h"

#include "abi/gputime_api.h"
#include "base/atomic.h"
#include "base/cpus.h"
#include "os/pressure.h"

#include <sys/resource.h>

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

#define PUBLISH_NS UINT64_C(10000000)
#define THROTTLED_NS UINT64_C(100000000) /* reading the cgroup's file takes longer than the rest */
#define CLOCK_NS UINT64_C(1000000000)

static struct {
    /* When the facts were published, the cgroup's file was read, and the clocks were read. */
    uint64_t published_ns, throttled_ns, clock_ns;
    unsigned clock_loss[GF_SUBMIT_DEVICES];
    uint64_t base[GF_STEP_ENGINE_FACTS]; /* what the first reading found */
    uint64_t value[GF_STEP_ENGINE_FACTS];
    uint64_t preempted_ns; /* of the GPU that had this cause for the longest time */
} facts;

/* A sum never decreases, even if the process moves to another cgroup, or uses a further GPU. */
static void raise_fact(unsigned fact, uint64_t value)
{
    facts.value[fact] = gf_max(facts.value[fact], value);
}

/* The same for a sum that began before the library's first reading, such as a cgroup's. */
static void raise_since_start(unsigned fact, uint64_t value)
{
    if (!facts.published_ns)
        facts.base[fact] = value;
    raise_fact(fact, value - gf_min(facts.base[fact], value));
}

static uint64_t ns_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

static void read_usage(uint64_t now)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    raise_since_start(gf_step_fact_minor, (uint64_t)usage.ru_minflt);
    raise_since_start(gf_step_fact_major, (uint64_t)usage.ru_majflt);
    gf_cpu_use_add(now, ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime), facts.preempted_ns);
}

static void add_states(const struct gf_step_gpu *gpus, unsigned count)
{
    uint64_t communicating = 0, queued = 0, idle[GF_HOST_CAUSE_COUNT] = {0};

    for (unsigned i = 0; i < count; i++) {
        const struct gf_gpu_shares *shares = gpus[i].shares;
        communicating += gf_load_relaxed(&shares->state_ns[gf_gpu_communicating]);
        queued += gf_load_relaxed(&shares->state_ns[gf_gpu_queued]);
        for (unsigned k = 0; k < GF_HOST_CAUSE_COUNT; k++)
            idle[k] += gf_load_relaxed(&shares->cause_ns[k]);
        for (unsigned k = 0; k < GF_LATE_CAUSES; k++)
            idle[k] += gf_load_relaxed(&shares->late_ns[k]);
        const uint64_t preempted = gf_load_relaxed(&shares->cause_ns[gf_host_preempted]) +
                                   gf_load_relaxed(&shares->late_ns[gf_host_preempted]);
        facts.preempted_ns = gf_max(facts.preempted_ns, preempted);
    }
    raise_fact(gf_step_fact_communicating, communicating / count);
    raise_fact(gf_step_fact_queued, queued / count);
    for (unsigned k = 0; k < GF_HOST_CAUSE_COUNT; k++)
        raise_fact(GF_STEP_FACT_IDLE + k, idle[k] / count);
}

/* A GPU without work lowers its clock, which costs nothing. */
static void add_clocks(uint64_t now, const struct gf_step_gpu *gpus, unsigned count,
                       gf_step_clock_fn *clock_loss)
{
    const bool is_due = now - facts.clock_ns >= CLOCK_NS;
    uint64_t lost = 0;

    for (unsigned i = 0; i < count; i++) {
        if (gpus[i].shares->last.state != gf_gpu_queued)
            continue;
        if (is_due) {
            facts.clock_loss[gpus[i].device] = clock_loss(gpus[i].device);
            facts.clock_ns = now;
        }
        lost += facts.clock_loss[gpus[i].device];
    }
    if (facts.published_ns)
        facts.value[gf_step_fact_clock] += (now - facts.published_ns) * lost / 1000 / count;
}

void gf_step_facts_publish(uint64_t now, bool is_delayed, const struct gf_step_gpu *gpus,
                           unsigned count, gf_step_clock_fn *clock_loss, gf_step_facts_fn *publish)
{
    if (now - facts.published_ns < PUBLISH_NS)
        return;
    if (count) {
        add_states(gpus, count);
        add_clocks(now, gpus, count, clock_loss);
    }
    read_usage(now);
    if (is_delayed || now - facts.throttled_ns >= THROTTLED_NS) {
        raise_since_start(gf_step_fact_throttled, 1000 * gf_pressure_throttled());
        facts.throttled_ns = now;
    }
    facts.published_ns = now;
    publish(now, facts.value);
}
