/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the NUMA nodes that a GPU belongs to, and the source of this information. The functions
 * have no side effects, and may be called on any thread.
 */
#ifndef GF_ENGINE_PLACE_LOCATE_H
#define GF_ENGINE_PLACE_LOCATE_H

#include "engine/machine/gpu.h"
#include "engine/machine/machine.h"

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

#endif
