/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cpus.h"
#include "host/gpu.h"
#include "host/machine.h"
#include "os/launch.h"

/*
 * Finds the NUMA nodes that a GPU belongs to, and the source of this information. The functions
 * have no side effects, and may be called on any thread.
 */

/*
 * Finds the nodes with CPUs that are nearest to the GPU. The result is one node, or all nodes of a
 * socket if the sources identify only the socket. If no source identifies a node, returns false and
 * sets *ret_source to NULL.
 */
bool gf_locate(const struct gf_machine *machine, const struct gf_gpu *gpu, struct gf_nodes *ret,
               const char **ret_source);

/* Computes the set of all CPUs of the nodes. */
void gf_locate_cpus(const struct gf_machine *machine, const struct gf_nodes *nodes,
                    struct gf_cpus *ret);

/* Computes the set of all CPUs of the packages to which the nodes belong. */
void gf_locate_socket(const struct gf_machine *machine, const struct gf_nodes *nodes,
                      struct gf_cpus *ret);

/* Computes the set of the nodes that have both CPUs and memory. */
void gf_locate_host_nodes(const struct gf_machine *machine, struct gf_nodes *ret);

/* Returns the number of nodes with CPUs. */
unsigned gf_locate_cpu_nodes(const struct gf_machine *machine);

/*
 * Divides a node's cores among its GPUs, so that ranks do not share cores. The functions have no
 * side effects, and may be called on any thread.
 */

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

/*
 * Returns how many CPUs a binding must leave to a program: a quarter of `allowed`, but at least 4
 * and at most 16. The result never exceeds `allowed`, nor the CPU quota rounded up (quota 0:
 * unlimited). The upper bound is 16, so that one of the eight NUMA domains of an EPYC suffices: a
 * binding to one domain was the fastest in measurements.
 */
unsigned gf_min_cpus(unsigned allowed, double quota);
