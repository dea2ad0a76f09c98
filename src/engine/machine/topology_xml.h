/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks hwloc's XML before hwloc reads it. hwloc itself accepts invalid XML: it stores NULL for a
 * missing set, and ignores the attributes of a tag after the first malformed one. It aborts the
 * process if a set begins with a comma, and allocates sets whose size grows with the largest
 * number.
 */
#ifndef GF_ENGINE_MACHINE_TOPOLOGY_XML_H
#define GF_ENGINE_MACHINE_TOPOLOGY_XML_H

#include "base/base.h"

/*
 * Whether all attributes are well-formed, each object has each of hwloc's sets once, and no number
 * is above `most`. The text need not be valid XML. May be called on any thread.
 */
bool gf_topology_xml_is_sound(const char *text, uint64_t most);

#endif
