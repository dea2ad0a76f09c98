/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a synthetic description before hwloc reads it. Without the check, hwloc could need much
 * time for a short description: the time grows faster than the number of objects, and the size of
 * sets grows with the largest index.
 */
#include "host/topology.h"

#include "base/input_file.h"
#include "host/private_env.h"
#include "os/procfs.h"

#include <hwloc.h>
#include <stdlib.h>

static bool begins_count(const char *text, const char *at)
{
    return at == text || strchr(" :[\t\n\v\f\r", at[-1]);
}

/*
 * Whether a number in parentheses is a size, as in "memory=8GB". Otherwise it is an index, as in
 * "indexes=0,2,1,3" or "indexes=2*2:1*2". at: the number's first character.
 */
static bool begins_size(const char *text, const char *at)
{
    static const char key[] = "indexes";
    const size_t length = sizeof(key) - 1;

    if (at[-1] != '=')
        return false;
    return (size_t)(at - text) <= length || strncmp(at - 1 - length, key, length) != 0;
}

/*
 * Whether the description has at most `most` objects and no index above `most`. The number of objects
 * is the product of the counts of all levels. For example, "Package:2 [NUMANode(memory=8GB)] Core:4
 * PU:2(indexes=...)" has 16 objects. Negative numbers are refused, because hwloc reads them as very
 * large ones. The text need not be valid. May be called on any thread.
 */
static bool gf_topology_synthetic_is_sound(const char *text, uint64_t most)
{
    uint64_t objects = 1;
    unsigned depth = 0;

    for (const char *at = text; *at; at++) {
        depth += *at == '(';
        depth -= *at == ')' && depth;
        if ((*at == '-' || *at == '+') && at[1] >= '0' && at[1] <= '9')
            return false;
        if (*at < '0' || *at > '9')
            continue;
        const bool is_count = !depth && begins_count(text, at);
        const bool is_index = depth && !begins_size(text, at);
        char *end;
        const uint64_t number = strtoull(at, &end, 0);
        if ((is_count || is_index) && number > most)
            return false;
        if (is_count && (objects *= gf_max(number, (uint64_t)1)) > most)
            return false;
        at = end - 1;
    }
    return true;
}

/*
 * Checks hwloc's XML before hwloc reads it. hwloc itself accepts invalid XML: it stores NULL for a
 * missing set, and ignores the attributes of a tag after the first malformed one. It aborts the
 * process if a set begins with a comma, and allocates sets whose size grows with the largest
 * number.
 */

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
    /* For a matrix, hwloc allocates nbobjs * nbobjs in 32 bits. Before 2.8, it has no flag to ignore it. */
    return (!is_text(attribute->name, attribute->name_length, "os_index") &&
            !is_text(attribute->name, attribute->name_length, "nbobjs")) ||
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

/* hwloc's time grows with the square. A machine with 1024 CPUs has about 6000 objects. */
#define OBJECTS_MOST 16384

/*
 * Whether all attributes are well-formed, each object has each of hwloc's sets once, no number is
 * above `most`, and the objects are not too many. The text need not be valid XML. May be called on
 * any thread.
 */
static bool gf_topology_xml_is_sound(const char *text, uint64_t most)
{
    unsigned objects = 0;
    const char *end = text; /* of tags before it: searched once for all of them */

    for (const char *tag = text; (tag = strchr(tag, '<')); tag++) {
        const size_t length = strspn(tag + 1, NAME_LETTERS "0123456789");
        if (end && end <= tag)
            end = strchr(tag, '>');
        if (length == 0)
            continue; /* a tag such as "<?xml", "<!DOCTYPE" or "</object>" */
        const bool is_object = is_text(tag + 1, length, "object");
        objects += is_object;
        if (!end || objects > OBJECTS_MOST || !is_tag_sound(tag + 1 + length, end, is_object, most))
            return false;
    }
    return true;
}

/*
 * The variables that the private copy of hwloc sees. Without them it would load plugins, and print
 * on standard error if firmware data contradicts itself.
 */
static const struct gf_hwloc_env_variable environment[] = {
    {"HWLOC_HIDE_ERRORS", "2"},
    {"HWLOC_PLUGINS_PATH", ""},
    {NULL, NULL},
};

static int hwloc_error(void)
{
    return errno ? -errno : -EINVAL;
}

static int configure_topology(hwloc_topology_t topology)
{
    /* Without DONT_CHANGE_BINDING, hwloc binds the calling thread to each CPU in turn. */
    unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#if HWLOC_API_VERSION >= 0x00020800
    flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
             HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
    /* Only packages and cores are kept, besides NUMA nodes and PUs, which hwloc always keeps. */
    if (hwloc_topology_set_flags(topology, flags) ||
        hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) ||
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL) ||
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL))
        return hwloc_error();
    return 0;
}

/* The largest XML that is read. The XML of a machine with 1024 CPUs and 16 GPUs has about 1 MiB. */
#define XML_MOST ((int)16 << 20)

/*
 * Passes to hwloc the text that was checked, not the path of the file, because the file may change
 * after the check.
 */
static int set_xml(hwloc_topology_t topology, const char *recorded)
{
    char *text = malloc(XML_MOST);
    int error = -ENOMEM;

    if (!text)
        return error;
    const int length = gf_procfs_read(text, XML_MOST, recorded, "topology.xml");
    if (length < 0)
        error = length;
    else if (length >= XML_MOST - 1)
        error = -E2BIG;
    else if (!gf_topology_xml_is_sound(text, GF_CPUS_MAX))
        error = -EINVAL;
    else
        error = hwloc_topology_set_xmlbuffer(topology, text, length + 1) ? hwloc_error() : 0;
    free(text);
    return error;
}

static int choose_source(hwloc_topology_t topology, const char *recorded)
{
    char description[8192];

    if (!recorded || !*recorded) {
        /*
         * The result is ignored: on other processors, hwloc lacks the component and refuses its
         * name.
         */
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
        return 0;
    }
    if (gf_input_access_in(recorded, "topology.xml", R_OK))
        return set_xml(topology, recorded);
    const int length = gf_procfs_read(description, sizeof(description), recorded, "topology.txt");
    if (length < 0)
        return length;
    if (!gf_topology_synthetic_is_sound(description, GF_CPUS_MAX))
        return -E2BIG;
    return hwloc_topology_set_synthetic(topology, description) ? hwloc_error() : 0;
}

int gf_topology_open(const char *recorded, struct hwloc_topology **ret)
{
    hwloc_topology_t topology;

    gf_hwloc_env_set(environment);
    errno = 0;
    if (hwloc_topology_init(&topology))
        return hwloc_error();
    int error = choose_source(topology, recorded);
    if (!error)
        error = configure_topology(topology);
    if (!error && hwloc_topology_load(topology))
        error = hwloc_error();
    if (error) {
        hwloc_topology_destroy(topology);
        return error;
    }
    *ret = topology;
    return 0;
}

void gf_topology_close(struct hwloc_topology *topology)
{
    hwloc_topology_destroy(topology);
}

static void to_cpus(hwloc_const_bitmap_t bitmap, struct gf_cpus *ret)
{
    int bit;
    *ret = (struct gf_cpus){0};
    /* If the bitmap is infinite, only the bits that fit into the set are copied. */
    for (bit = hwloc_bitmap_first(bitmap); bit >= 0 && bit < GF_CPUS_MAX;
         bit = hwloc_bitmap_next(bitmap, bit))
        gf_set_add(ret, (unsigned)bit);
}

void gf_topology_online(struct hwloc_topology *topology, struct gf_cpus *ret)
{
    to_cpus(hwloc_get_root_obj(topology)->cpuset, ret);
}

GF_COMPARATOR(by_first_cpu, struct gf_core,
              gf_set_next(&one->cpus, 0) - gf_set_next(&other->cpus, 0))

int gf_topology_cores(struct hwloc_topology *topology, struct gf_machine *machine)
{
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    int count = hwloc_get_nbobjs_by_type(topology, type);

    if (count <= 0) {
        type = HWLOC_OBJ_PU;
        count = hwloc_get_nbobjs_by_type(topology, type);
    }
    if (count <= 0)
        return -ENOENT;
    machine->cores = calloc((size_t)count, sizeof(*machine->cores));
    if (!machine->cores)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, (unsigned)i);
        const hwloc_obj_t package =
            hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
        to_cpus(object->cpuset, &machine->cores[i].cpus);
        machine->cores[i].package = package ? (int)package->logical_index : -1;
    }
    machine->core_count = (size_t)count;
    qsort(machine->cores, machine->core_count, sizeof(*machine->cores), by_first_cpu);
    return 0;
}

GF_COMPARATOR(by_id, struct gf_node, gf_order(one->id, other->id))

int gf_topology_nodes(struct hwloc_topology *topology, struct gf_machine *machine)
{
    const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    struct gf_cpus taken = {0};

    if (count <= 0)
        return -ENOENT;
    machine->nodes = calloc((size_t)count, sizeof(*machine->nodes));
    if (!machine->nodes)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        const hwloc_obj_t object = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        struct gf_node *node = &machine->nodes[i];
        /* A damaged recording may lack the index, which is then UINT_MAX. */
        if (object->os_index >= GF_NODES_MAX)
            return -EINVAL;
        node->id = object->os_index;
        node->memory_bytes = object->attr->numanode.local_memory;
        node->has_memory = node->memory_bytes > 0;
        /*
         * To a node without CPUs, hwloc assigns the CPUs of an earlier node. They are counted only
         * for the earlier node.
         */
        to_cpus(object->cpuset, &node->cpus);
        if (gf_set_meet(&node->cpus, &taken))
            node->cpus = (struct gf_cpus){0};
        gf_set_or(&taken, &taken, &node->cpus);
    }
    machine->node_count = (size_t)count;
    qsort(machine->nodes, machine->node_count, sizeof(*machine->nodes), by_id);
    return 0;
}

int gf_topology_export(struct hwloc_topology *topology, char **ret, size_t *ret_length)
{
    char *text;
    int length;

    errno = 0;
    if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0))
        return hwloc_error();
    *ret_length = (size_t)length - 1; /* hwloc counts the final null byte */
    *ret = strndup(text, *ret_length);
    hwloc_free_xmlbuffer(topology, text);
    return *ret ? 0 : -ENOMEM;
}
