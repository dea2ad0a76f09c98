/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a node's cores among its GPUs, so that ranks do not share cores. The functions have no
 * side effects, and may be called on any thread.
 */
#ifndef GF_ENGINE_PLACE_RANKS_H
#define GF_ENGINE_PLACE_RANKS_H

#include "engine/machine/gpu.h"
#include "engine/machine/machine.h"
#include "os/launch.h"

/*
 * Computes one GPU's part of the CPUs `among`. A part consists of whole cores. The parts are in the
 * PCI order of all GPUs of the node, including GPUs that are hidden from the process, so the parts
 * of jobs with different GPUs do not overlap. If /sys does not show the GPU's node, each local rank
 * of the launcher gets a part instead. Returns 0, -ENOENT if the local rank is unknown as well, or
 * -ERANGE if there are fewer cores than parts.
 */
int gf_ranks_share(const struct gf_machine *machine, const struct gf_rank *rank,
                   const struct gf_gpu *gpu, unsigned node, const struct gf_cpus *among,
                   struct gf_cpus *ret);

/*
 * Returns the number of CPUs for each rank, if the ranks on this host share the start mask and the
 * quota. Returns 0 if there are not several ranks, or if the launcher narrowed the start mask,
 * because other ranks then use other CPUs. quota: in CPUs; 0: no quota.
 */
unsigned gf_ranks_cpus(const struct gf_rank *rank, const struct gf_cpus *start,
                       const struct gf_cpus *cpuset, double quota);

#endif
