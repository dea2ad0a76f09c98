/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA nodes that a GPU belongs to, and the source of that information. Pure; any thread. */
#ifndef GF_ENGINE_PLACE_LOCATE_H
#define GF_ENGINE_PLACE_LOCATE_H

#include "engine/machine/gpu.h"
#include "engine/machine/machine.h"

/*
 * Finds the nodes with CPUs that are nearest to the GPU. That is one node, or all nodes of a socket
 * if the sources identify only the socket. If no source identifies any node, returns false and sets
 * *ret_source to NULL.
 */
bool gf_locate(const struct gf_machine *machine, const struct gf_gpu *gpu, struct gf_nodes *ret,
               const char **ret_source);

/* All CPUs of the nodes. */
void gf_locate_cpus(const struct gf_machine *machine, const struct gf_nodes *nodes,
                    struct gf_cpus *ret);

/* All CPUs of the nodes' packages. */
void gf_locate_socket(const struct gf_machine *machine, const struct gf_nodes *nodes,
                      struct gf_cpus *ret);

/* Nodes with both CPUs and memory, where a program's pages may go. */
void gf_locate_host_nodes(const struct gf_machine *machine, struct gf_nodes *ret);

/* The number of nodes with CPUs. */
unsigned gf_locate_cpu_nodes(const struct gf_machine *machine);

#endif
