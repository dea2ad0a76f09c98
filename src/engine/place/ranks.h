/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a node's cores among its GPUs, so that ranks do not share cores. Pure; any thread. */
#ifndef GF_ENGINE_PLACE_RANKS_H
#define GF_ENGINE_PLACE_RANKS_H

#include "engine/machine/gpu.h"
#include "engine/machine/machine.h"
#include "os/launch.h"

/*
 * One GPU's part of the CPUs `among`: whole cores, in blocks by PCI order over all GPUs of the
 * node. GPUs hidden from the process count too, so jobs with different GPUs do not overlap. If /sys
 * does not give the GPU's node, the launcher's local ranks give the order. 0; -ENOENT if neither is
 * known; -ERANGE if there are fewer cores than parts.
 */
int gf_ranks_share(const struct gf_machine *machine, const struct gf_rank *rank,
                   const struct gf_gpu *gpu, unsigned node, const struct gf_cpus *among,
                   struct gf_cpus *ret);

/*
 * The number of CPUs of one rank, if the ranks on this host share the start mask and the quota. 0:
 * there is one rank, or the launcher narrowed the mask, so that other ranks use other CPUs. quota
 * is in CPUs; 0: no quota.
 */
unsigned gf_ranks_cpus(const struct gf_rank *rank, const struct gf_cpus *start,
                       const struct gf_cpus *cpuset, double quota);

#endif
