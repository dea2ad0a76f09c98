/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the description of this machine or of a recorded one. */
#ifndef GF_ENGINE_MACHINE_MACHINE_LOAD_H
#define GF_ENGINE_MACHINE_MACHINE_LOAD_H

#include "engine/machine/machine.h"

/*
 * recorded: the folder of a recorded machine; NULL or "": this machine. The folder contains hwloc's
 * topology.xml, or a synthetic topology for hwloc in topology.txt. It also contains the files of
 * /sys that this function reads (docs/placement.md). Returns 0 or -errno. The caller owns *ret and
 * frees it with gf_machine_free. Allocates memory. Changes no thread's mask, and loads no hwloc
 * plugin. May be called on any thread, also under the loader's lock. Takes 5 to 30 ms on a large
 * machine.
 */
int gf_machine_load(const char *recorded, struct gf_machine **ret);

#endif
