/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine: this one, or a recorded one. */
#ifndef GF_ENGINE_MACHINE_MACHINE_LOAD_H
#define GF_ENGINE_MACHINE_MACHINE_LOAD_H

#include "engine/machine/machine.h"

/*
 * recorded is the folder of a recorded machine; NULL or "" is this machine. The folder of a
 * recorded machine contains hwloc's topology.xml, or a synthetic topology for hwloc in
 * topology.txt. It also contains the files of /sys that are read here (docs/placement.md). 0 or
 * -errno. The caller owns *ret and frees it with gf_machine_free. Allocates. Rebinds no thread and
 * loads no hwloc plugin. Any thread, also under the loader's lock. Takes 5 to 30 ms on a large
 * machine.
 */
int gf_machine_load(const char *recorded, struct gf_machine **ret);

#endif
