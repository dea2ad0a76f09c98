/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/topology_xml.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

struct attribute {
    const char *name, *value;
    size_t name_length, value_length;
};

enum sets {
    no_sets,
    cpuset = 1,
    complete_cpuset = 2,
    nodeset = 4,
    complete_nodeset = 8,
    all_sets = 15
};

static bool is_text(const char *text, size_t length, const char *expected)
{
    return strlen(expected) == length && strncmp(text, expected, length) == 0;
}

/*
 * Reads an attribute, name="value", at *at, and moves *at to the end of the attribute. Returns
 * false if there is no well-formed attribute at *at, for example at the end of the tag.
 */
static bool next_attribute(const char **at, const char *end, struct attribute *ret)
{
    const char *from = *at + strspn(*at, " \t\n");

    ret->name = from;
    ret->name_length = strspn(from, NAME_LETTERS);
    ret->value = from + ret->name_length + strlen("=\"");
    if (from == *at || !ret->name_length || ret->value >= end ||
        strncmp(from + ret->name_length, "=\"", 2) != 0)
        return false;
    const char *quote = memchr(ret->value, '"', (size_t)(end - ret->value));
    if (!quote)
        return false;
    ret->value_length = (size_t)(quote - ret->value);
    *at = quote + 1;
    return true;
}

/*
 * Whether the value is a set such as "0x00000003" or "0x1,0xffffffff". Returns false for "0xf...f",
 * which means an infinite set.
 */
static bool is_set(const char *value, size_t length)
{
    return length > 2 && strncmp(value, "0x", 2) == 0 &&
           strspn(value, "0123456789abcdefx,") >= length;
}

static enum sets set_of(const struct attribute *attribute)
{
    static const char *const names[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};

    for (unsigned i = 0; i < GF_ARRAY_LEN(names); i++)
        if (is_text(attribute->name, attribute->name_length, names[i]))
            return (enum sets)(1U << i);
    return no_sets;
}

static bool ends_with(const struct attribute *attribute, const char *ending)
{
    const size_t length = strlen(ending);
    return attribute->name_length >= length &&
           strncmp(attribute->name + attribute->name_length - length, ending, length) == 0;
}

static bool is_attribute_sound(const struct attribute *attribute, uint64_t most)
{
    const char *value = attribute->value;

    if (ends_with(attribute, "cpuset") || ends_with(attribute, "nodeset"))
        return is_set(value, attribute->value_length);
    return !is_text(attribute->name, attribute->name_length, "os_index") ||
           (*value >= '0' && *value <= '9' && strtoull(value, NULL, 10) <= most);
}

/*
 * Whether the attribute is the type of an object that describes a device. Such an object has no
 * sets of CPUs or nodes.
 */
static bool is_device(const struct attribute *attribute)
{
    static const char *const types[] = {"Bridge", "PCIDev", "OSDev", "Misc"};

    for (size_t i = 0; i < GF_ARRAY_LEN(types); i++)
        if (is_text(attribute->name, attribute->name_length, "type") &&
            is_text(attribute->value, attribute->value_length, types[i]))
            return true;
    return false;
}

/* Checks the attributes of a tag. at: the first character after the tag's name. */
static bool is_tag_sound(const char *at, const char *end, bool is_object, uint64_t most)
{
    struct attribute attribute;
    unsigned sets = 0;
    bool device = false;

    while (next_attribute(&at, end, &attribute)) {
        const unsigned set = set_of(&attribute);
        if (!is_attribute_sound(&attribute, most) || (sets & set))
            return false;
        sets |= set;
        device |= is_device(&attribute);
    }
    at += strspn(at, " \t\n");
    return at + (*at == '/') == end && (!is_object || device || sets == all_sets);
}

bool gf_topology_xml_is_sound(const char *text, uint64_t most)
{
    for (const char *tag = text; (tag = strchr(tag, '<')); tag++) {
        const size_t length = strspn(tag + 1, NAME_LETTERS "0123456789");
        const char *end = strchr(tag, '>');
        if (length == 0)
            continue; /* a tag such as "<?xml", "<!DOCTYPE" or "</object>" */
        if (!end || !is_tag_sound(tag + 1 + length, end, is_text(tag + 1, length, "object"), most))
            return false;
    }
    return true;
}
