/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/topology_xml.h"

#include <stdlib.h>
#include <string.h>

#define OBJECT "<object "

/* Finds name="value" in a tag of the given length. Returns the value's length, or -1 if absent. */
static long find_value(const char *tag, size_t length, const char *name, const char **ret)
{
    const size_t size = strlen(name);

    for (size_t i = 1; i + size + 2 < length; i++) {
        if (tag[i - 1] != ' ' || strncmp(tag + i, name, size) != 0 ||
            strncmp(tag + i + size, "=\"", 2) != 0)
            continue;
        *ret = tag + i + size + 2;
        const char *end = memchr(*ret, '"', length - (i + size + 2));
        return end ? end - *ret : -1;
    }
    return -1;
}

/* "0x00000003" or "0x1,0xffffffff"; "0xf...f" would be a set without an end. */
static bool is_set(const char *value, long length)
{
    return length > 2 && strncmp(value, "0x", 2) == 0 &&
           strspn(value, "0123456789abcdefx,") >= (size_t)length;
}

/* Devices have no sets. */
static bool is_device(const char *tag, size_t length)
{
    static const char *const types[] = {"Bridge", "PCIDev", "OSDev", "Misc"};
    const char *type;
    const long size = find_value(tag, length, "type", &type);

    for (size_t i = 0; size > 0 && i < GF_ARRAY_LEN(types); i++)
        if (strlen(types[i]) == (size_t)size && strncmp(type, types[i], (size_t)size) == 0)
            return true;
    return false;
}

static bool is_object_sound(const char *tag, size_t length, uint64_t most)
{
    static const char *const sets[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};
    const char *value;

    if (is_device(tag, length))
        return true;
    for (size_t i = 0; i < GF_ARRAY_LEN(sets); i++) {
        const long size = find_value(tag, length, sets[i], &value);
        if (size < 0 || !is_set(value, size))
            return false;
    }
    return find_value(tag, length, "os_index", &value) < 0 ||
           (*value >= '0' && *value <= '9' && strtoull(value, NULL, 10) <= most);
}

bool gf_topology_xml_is_sound(const char *text, uint64_t most)
{
    for (const char *tag = text; (tag = strstr(tag, OBJECT)); tag += strlen(OBJECT)) {
        const char *end = strchr(tag, '>');
        if (!end || !is_object_sound(tag, (size_t)(end - tag), most))
            return false;
    }
    return true;
}
