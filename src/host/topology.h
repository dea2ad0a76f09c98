/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the part of struct gf_machine that comes from hwloc. Used in this folder only. */
#pragma once

#include "host/machine.h"

/*
 * Reads CPUs, cores and nodes of this machine (recorded is NULL or ""), from /sys, or of a recorded one, from its
 * topology.xml or topology.txt. Cores are sorted by their first CPU, and nodes by their ids. If no cores are known,
 * each CPU counts as a core. Returns 0 or -errno; then the caller, too, frees what *ret has got, by gf_machine_free.
 * May be called on any thread.
 */
int gf_topology_read(const char *recorded, struct gf_machine *ret);

/* Returns 0 and hwloc's XML of this machine, which the caller frees by free(), or -errno. */
int gf_topology_export(char **ret, size_t *ret_length);
