/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the part of struct gf_machine that comes from hwloc. Used in this folder only. */
#pragma once

#include "host/machine.h"

/*
 * Opens the topology of this machine (recorded is NULL or "") or of a recorded one. Returns 0 or
 * -errno. The caller closes *ret.
 */
struct hwloc_topology;
int gf_topology_open(const char *recorded, struct hwloc_topology **ret);
void gf_topology_close(struct hwloc_topology *topology);

/*
 * Reads the cores, sorted by their first CPU. If hwloc knows no cores, each CPU counts as a core.
 * Returns 0 or -errno.
 */
int gf_topology_cores(struct hwloc_topology *topology, struct gf_machine *machine);

/*
 * Reads the nodes with their CPUs and memory, for a machine whose /sys has no nodes. Returns 0 or
 * -errno.
 */
int gf_topology_nodes(struct hwloc_topology *topology, struct gf_machine *machine);

void gf_topology_online(struct hwloc_topology *topology, struct gf_cpus *ret);

/* Returns 0 and hwloc's XML, which the caller frees by free(), or -errno. */
int gf_topology_export(struct hwloc_topology *topology, char **ret, size_t *ret_length);
