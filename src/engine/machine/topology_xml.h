/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks hwloc's XML before hwloc reads it. hwloc reads a missing set as NULL, and allocates sets
 * as large as the largest number.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_XML_H
#define GF_ENGINE_MACHINE_TOPOLOGY_XML_H

#include "base/base.h"

/*
 * Whether each object of the text has the sets that hwloc writes, and no number above `most`. Any
 * text is allowed. Any thread.
 */
bool gf_topology_xml_is_sound(const char *text, uint64_t most);

#endif
