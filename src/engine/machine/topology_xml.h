/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks hwloc's XML before hwloc reads it. Without the check, hwloc reads a missing set as NULL
 * and ignores a tag's attributes after the first malformed one. It ends the process at a set that
 * begins with a comma, and allocates sets as large as the largest number.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_XML_H
#define GF_ENGINE_MACHINE_TOPOLOGY_XML_H

#include "base/base.h"

/*
 * Whether all attributes are well-formed, each object has each of hwloc's sets once, and no number
 * is above `most`. The text may be invalid. Any thread.
 */
bool gf_topology_xml_is_sound(const char *text, uint64_t most);

#endif
