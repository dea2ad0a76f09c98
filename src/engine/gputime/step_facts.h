/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/trace_api.h"
#include "base/base.h"
#include "engine/gputime/shares.h"

/*
 * Tells whether this process or others had the CPUs while a GPU had nothing to do because the
 * submitting thread had no CPU (cause `preempted`). Only the sampler's thread adds; any thread may read.
 */

struct gf_cpu_use {
    uint64_t ns;     /* time in which a GPU was idle with this cause for the most part */
    uint64_t own_ns; /* CPU time of this process's threads in that time */
    unsigned cpus;   /* number of CPUs that the process's main thread may use */
};

/*
 * Called regularly. Both times are sums since the start: cpu_ns of the CPU time of the process, and
 * preempted_ns of a GPU's idle time with that cause.
 */
void gf_cpu_use_add(uint64_t now, uint64_t cpu_ns, uint64_t preempted_ns);
void gf_cpu_use_read(struct gf_cpu_use *ret);

/* Returns how many CPUs the process's main thread may use. */
unsigned gf_cpu_use_cpus(void);

/*
 * Publishes sums that explain slow steps (struct gf_step_facts): page faults, the time without work
 * of the GPUs by cause, and others. The preload library, which knows when steps begin and end,
 * computes the part of each step. Used on the sampler's thread only.
 */

/* The engine's facts. Times are in ns. A time of several GPUs is their mean. */
enum gf_step_fact {
    gf_step_fact_minor, /* page faults of the process without I/O */
    gf_step_fact_major, /* page faults with I/O */
    gf_step_fact_throttled,
    gf_step_fact_communicating, /* a GPU had only kernels that NCCL launched */
    gf_step_fact_queued,        /* a GPU had other work */
    gf_step_fact_clock,         /* work that a GPU did not do because its clock was low */
    GF_STEP_FACT_IDLE,          /* a GPU had nothing to do: a fact for each enum gf_host_cause */
};
_Static_assert((unsigned)GF_STEP_FACT_IDLE + (unsigned)GF_HOST_CAUSE_COUNT <= GF_STEP_ENGINE_FACTS,
               "the facts have room");

static inline uint64_t gf_step_fact(const struct gf_step_facts *facts, unsigned fact)
{
    return facts->value[GF_CAUSE_COUNT + fact];
}

typedef void gf_step_facts_fn(uint64_t now, const uint64_t facts[GF_STEP_ENGINE_FACTS]);
/* By how many thousandths the clock of a device is below its highest one; 0 if unknown. */
typedef unsigned gf_step_clock_fn(unsigned device);

struct gf_step_gpu {
    unsigned device;
    const struct gf_gpu_shares *shares;
};

/*
 * Publishes the facts of the process and of the GPUs, at most every 10 ms. Reads the clock of GPUs
 * with work once per second. is_delayed: the sample came late, so the process may have been throttled.
 */
void gf_step_facts_publish(uint64_t now, bool is_delayed, const struct gf_step_gpu *gpus,
                           unsigned count, gf_step_clock_fn *clock_loss, gf_step_facts_fn *publish);
