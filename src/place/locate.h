/* SPDX-License-Identifier: Apache-2.0 */
/* Which NUMA nodes a GPU belongs to, and by whose word. */
#ifndef GF_PLACE_LOCATE_H
#define GF_PLACE_LOCATE_H

#include "place/verdict.h"

/*
 * The nodes whose CPUs and memory are nearest to the GPU: one, or those of a socket when only that
 * much is known. Only nodes with CPUs are named. False when no source knows; *ret_source is then
 * NULL.
 */
bool gf_locate(const struct gf_machine *machine, const struct gf_gpu *gpu, struct gf_nodes *ret,
               const char **ret_source);

/* Union of the CPUs of nodes. */
void gf_locate_cpus(const struct gf_machine *machine, const struct gf_nodes *nodes,
                    struct gf_cpus *ret);

/* CPUs of the packages that nodes belong to. */
void gf_locate_socket(const struct gf_machine *machine, const struct gf_nodes *nodes,
                      struct gf_cpus *ret);

/* Nodes that have both CPUs and memory: where a program's pages may go. */
void gf_locate_host_nodes(const struct gf_machine *machine, struct gf_nodes *ret);

unsigned gf_locate_cpu_nodes(const struct gf_machine *machine);

#endif
