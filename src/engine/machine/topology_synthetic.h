/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a synthetic description before hwloc reads it. Without the check, a short description
 * could make hwloc work for long: the time grows faster than the number of objects, and sets grow
 * with the largest index.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_SYNTHETIC_H
#define GF_ENGINE_MACHINE_TOPOLOGY_SYNTHETIC_H

#include "base/base.h"

/*
 * Whether the description has at most `most` objects and no index above `most`. The text may be
 * invalid. Any thread.
 */
bool gf_topology_synthetic_is_sound(const char *text, uint64_t most);

#endif
