/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which CPUs and which memory policy to use, given the GPUs, the machine and the facts of
 * the process. The decision has no side effects; each row of the decision table (docs/placement.md)
 * is a unit test.
 */
#pragma once

#include "config/options.h"
#include "host/facts.h"
#include "host/gpu.h"
#include "host/machine.h"
#include "host/memory_verdict.h"

/*
 * probe: the calls that the kernel refused; NULL: assume that it refuses none. Callers decide
 * twice: first without a probe, then with a probe that tried the node and CPUs of the first
 * verdict. May be called on any thread.
 */
void gf_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                       const struct gf_probe *probe, const struct gf_options *options,
                       const struct gf_gpu *gpus, size_t gpu_count, struct gf_verdict *ret);

const char *gf_bound_name(enum gf_bound bound);
