/* SPDX-License-Identifier: Apache-2.0 */
/* The part of struct gf_machine that comes from hwloc. Only this folder includes it. */
#ifndef GF_HOST_TOPOLOGY_H
#define GF_HOST_TOPOLOGY_H

#include "host/machine.h"

/* Opens this machine (recorded NULL or "") or a recorded one. 0 or -errno. */
struct hwloc_topology;
int gf_topology_open(const char *recorded, struct hwloc_topology **ret);
void gf_topology_close(struct hwloc_topology *topology);

/* Cores by ascending first CPU, with the index of their package; CPUs where hwloc knows no cores. */
int gf_topology_cores(struct hwloc_topology *topology, struct gf_machine *machine);

/* Nodes with locality and memory as hwloc sees them, for machines whose /sys tells nothing. */
int gf_topology_nodes(struct hwloc_topology *topology, struct gf_machine *machine);

void gf_topology_online(struct hwloc_topology *topology, struct gf_cpus *ret);

/* Writes hwloc's XML. 0 or -errno. */
int gf_topology_export(struct hwloc_topology *topology, const char *path);

#endif
