/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a synthetic description before hwloc reads it. Without the check, hwloc could need much
 * time for a short description: the time grows faster than the number of objects, and the size of
 * sets grows with the largest index.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_SYNTHETIC_H
#define GF_ENGINE_MACHINE_TOPOLOGY_SYNTHETIC_H

#include "base/base.h"

/*
 * Whether the description has at most `most` objects and no index above `most`. The text need not
 * be valid. May be called on any thread.
 */
bool gf_topology_synthetic_is_sound(const char *text, uint64_t most);

#endif
