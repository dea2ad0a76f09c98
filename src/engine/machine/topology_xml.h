/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks hwloc's XML before hwloc reads it. hwloc reads a missing set as NULL, ignores a tag's
 * attributes behind the first malformed one, ends the process at a set that begins with a comma, and
 * allocates sets as large as the largest number.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_XML_H
#define GF_ENGINE_MACHINE_TOPOLOGY_XML_H

#include "base/base.h"

/*
 * Whether all attributes of the text are well-formed, and each object has the sets that hwloc
 * writes, once, and no number above `most`. Any text is allowed. Any thread.
 */
bool gf_topology_xml_is_sound(const char *text, uint64_t most);

#endif
