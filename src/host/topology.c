/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a synthetic description before hwloc reads it. Without the check, hwloc could need much
 * time for a short description: the time grows faster than the number of objects, and the size of
 * sets grows with the largest index.
 */
#include "host/topology.h"

#include "base/input_file.h"
#include "os/procfs.h"

#include <hwloc.h>
#include <stdlib.h>
#include <strings.h>

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

/* Whether hwloc fails an assertion: at levels of memory caches, and at orders of indexes by types. */
static bool begins_assertion(const char *at, unsigned depth)
{
    static const char key[] = "indexes=";
    const char *const value = at + sizeof(key) - 1;

    return depth ? gf_begins(at, key) && strspn(value, "0123456789,*:") != strcspn(value, " )")
                 : strncasecmp(at, "mem", strlen("mem")) == 0;
}

/*
 * Whether the description has at most `most` objects, as many in brackets, and no index above `most`. The number
 * of objects is the product of the counts of all levels; of one in brackets, that of the levels before it. For
 * example, "Package:2 [NUMANode(memory=8GB)] Core:4 PU:2(indexes=...)" has 16 objects, and 2 in brackets. Negative
 * numbers are refused, because hwloc reads them as very large ones. The text need not be valid. May be called on any
 * thread.
 */
static bool gf_topology_synthetic_is_sound(const char *text, uint64_t most)
{
    uint64_t objects = 1, in_brackets = 0;
    unsigned depth = 0;

    for (const char *at = text; *at; at++) {
        depth += *at == '(';
        depth -= *at == ')' && depth;
        in_brackets += *at == '[' ? objects : 0;
        if (((*at == '-' || *at == '+') && at[1] >= '0' && at[1] <= '9') || in_brackets > most ||
            begins_assertion(at, depth))
            return false;
        if (*at < '0' || *at > '9')
            continue;
        const bool is_count = !depth && (at == text || strchr(" :[\t\n\v\f\r", at[-1]));
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
 * Reads hwloc's XML. hwloc itself must not: it accepts invalid XML, and fails assertions or dereferences NULL if
 * objects are nested as no machine's are.
 */

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz_"

/* A value of an attribute; it ends with a quote. NULL without such an attribute. */
struct object {
    const char *type, *cpuset, *os_index, *local_memory;
};

/* Returns where the value of an attribute is stored; *ret_other if the attribute has no use. */
static const char **find_value(struct object *object, const char *name, size_t length,
                               const char **ret_other)
{
    const struct {
        const char *name, **value;
    } used[] = {{"type", &object->type},
                {"cpuset", &object->cpuset},
                {"os_index", &object->os_index},
                {"local_memory", &object->local_memory}};

    *ret_other = NULL;
    for (size_t i = 0; i < GF_ARRAY_LEN(used); i++)
        if (strlen(used[i].name) == length && strncmp(name, used[i].name, length) == 0)
            return used[i].value;
    return ret_other;
}

/*
 * Reads the attributes, name="value", from `at` to `end`, the end of the tag. Returns false if one is not
 * well-formed, or is repeated.
 */
static bool read_attributes(const char *at, const char *end, struct object *ret, bool *ret_closed)
{
    const char *other;

    *ret = (struct object){0};
    for (;;) {
        const char *name = at + strspn(at, " \t\n");
        const size_t length = strspn(name, NAME_LETTERS);
        const char *value = name + length + strlen("=\"");
        *ret_closed = *name == '/';
        if (name + *ret_closed == end)
            return true;
        if (name == at || !length || value >= end || !gf_begins(name + length, "=\""))
            return false;
        const char **place = find_value(ret, name, length, &other);
        const char *quote = memchr(value, '"', (size_t)(end - value));
        if (!quote || *place)
            return false;
        *place = value;
        at = quote + 1;
    }
}

/* Reads a set such as "0x00000001,,0x000000ff": words of 32 bits, the highest first. */
static bool read_set(const char *at, struct gf_cpus *ret)
{
    const char *const end = at ? strchr(at, '"') : NULL;
    size_t word = 0;

    *ret = (struct gf_cpus){0};
    for (const char *comma = at; comma && comma < end; comma++)
        word += *comma == ',';
    for (; at && at <= end; at++, word--) {
        char *rest = (char *)(uintptr_t)at;
        const unsigned long bits = *at == ',' || at == end ? 0 : strtoul(at, &rest, 16);
        if (bits > UINT32_MAX || (*rest != ',' && *rest != '"'))
            return false;
        if (word < GF_CPUS_MAX / 32)
            ret->word[word / 2] |= (uint64_t)bits << word % 2 * 32;
        at = rest;
    }
    return end;
}

static bool is_type(const struct object *object, const char *type)
{
    const size_t length = strlen(type);
    return object->type && strncmp(object->type, type, length) == 0 && object->type[length] == '"';
}

/* Where the text is read. */
struct place {
    int depth, package_depth; /* number of objects around */
    int package, packages;    /* package: -1 outside of a package */
    bool has_cores;
    struct gf_nodes nodes;
};

static int add_xml_node(const struct object *object, struct place *place,
                        struct gf_machine *machine)
{
    struct gf_node *node = &machine->nodes[machine->node_count];
    const unsigned long id = object->os_index ? strtoul(object->os_index, NULL, 10) : GF_NODES_MAX;

    if (id >= GF_NODES_MAX || gf_set_test(&place->nodes, (unsigned)id) ||
        !read_set(object->cpuset, &node->cpus))
        return -EINVAL;
    gf_set_add(&place->nodes, (unsigned)id);
    node->id = (unsigned)id;
    node->memory_bytes = object->local_memory ? strtoull(object->local_memory, NULL, 10) : 0;
    machine->node_count++;
    return 0;
}

static int add_xml_core(const struct object *object, struct place *place,
                        struct gf_machine *machine)
{
    const bool is_core = is_type(object, "Core");

    if (is_core && !place->has_cores)
        machine->core_count = 0; /* of CPUs without a core */
    else if (!is_core && place->has_cores)
        return 0;
    place->has_cores = is_core;
    machine->cores[machine->core_count].package = place->package;
    return read_set(object->cpuset, &machine->cores[machine->core_count++].cpus) ? 0 : -EINVAL;
}

static int add_object(const struct object *object, struct place *place, struct gf_machine *machine)
{
    if (place->depth == 0)
        return read_set(object->cpuset, &machine->online) ? 0 : -EINVAL;
    if (is_type(object, "NUMANode"))
        return add_xml_node(object, place, machine);
    if (is_type(object, "Core") || is_type(object, "PU"))
        return add_xml_core(object, place, machine);
    if (is_type(object, "Package") || is_type(object, "Socket")) { /* as hwloc 1 writes it */
        place->package = place->packages++;
        place->package_depth = place->depth;
    }
    return 0;
}

#define OBJECTS_MOST 16384 /* a machine with 1024 CPUs has about 6000 objects */
#define OBJECT "<object"

static int read_objects(const char *text, struct gf_machine *machine)
{
    struct place place = {.package = -1};
    struct object object;
    bool is_closed = false;
    int error = 0;

    for (const char *tag = text; !error && (tag = strchr(tag, '<')); tag++) {
        if (gf_begins(tag, OBJECT)) {
            const char *end = strchr(tag, '>');
            if (!end || !read_attributes(tag + strlen(OBJECT), end, &object, &is_closed))
                return -EINVAL;
            error = add_object(&object, &place, machine);
            place.depth += !is_closed;
            tag = end;
        } else if (gf_begins(tag, "</object>") && --place.depth <= place.package_depth) {
            place.package = -1;
        }
    }
    return error ? error : machine->core_count && machine->node_count ? 0 : -EINVAL;
}

/* The largest XML that is read. The XML of a machine with 1024 CPUs and 16 GPUs has about 1 MiB. */
#define XML_MOST ((int)16 << 20)

static int read_xml(const char *recorded, struct gf_machine *machine)
{
    char *text = malloc(XML_MOST);
    int error = text ? gf_procfs_read(text, XML_MOST, recorded, "topology.xml") : -ENOMEM;
    size_t count = 0;

    for (const char *at = text; error >= 0 && (at = strstr(at, OBJECT)); at++)
        count++;
    if (error >= XML_MOST - 1)
        error = -E2BIG;
    if (error >= 0 && (!count || count > OBJECTS_MOST))
        error = -EINVAL;
    if (error >= 0) {
        machine->cores = calloc(count, sizeof(*machine->cores));
        machine->nodes = calloc(count, sizeof(*machine->nodes));
        error = machine->cores && machine->nodes ? read_objects(text, machine) : -ENOMEM;
    }
    free(text);
    return error;
}

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
    const int length = gf_procfs_read(description, sizeof(description), recorded, "topology.txt");
    if (length < 0)
        return length;
    /* hwloc takes 0.7 s for 2048 packages of one CPU, and 5 s for 4096 */
    if (!gf_topology_synthetic_is_sound(description, GF_CPUS_MAX / 2))
        return -E2BIG;
    return hwloc_topology_set_synthetic(topology, description) ? hwloc_error() : 0;
}

static int open_topology(const char *recorded, hwloc_topology_t *ret)
{
    errno = 0;
    if (hwloc_topology_init(ret))
        return hwloc_error();
    int error = choose_source(*ret, recorded);
    if (!error)
        error = configure_topology(*ret);
    if (!error && hwloc_topology_load(*ret))
        error = hwloc_error();
    if (error)
        hwloc_topology_destroy(*ret);
    return error;
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

static int read_cores(hwloc_topology_t topology, struct gf_machine *machine)
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
    return 0;
}

static int read_nodes(hwloc_topology_t topology, struct gf_machine *machine)
{
    const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);

    if (count <= 0)
        return -ENOENT;
    machine->nodes = calloc((size_t)count, sizeof(*machine->nodes));
    if (!machine->nodes)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        const hwloc_obj_t object = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        struct gf_node *node = &machine->nodes[i];
        if (object->os_index >= GF_NODES_MAX)
            return -EINVAL;
        node->id = object->os_index;
        node->memory_bytes = object->attr->numanode.local_memory;
        to_cpus(object->cpuset, &node->cpus);
    }
    machine->node_count = (size_t)count;
    return 0;
}

GF_COMPARATOR(by_first_cpu, struct gf_core,
              gf_set_next(&one->cpus, 0) - gf_set_next(&other->cpus, 0))
GF_COMPARATOR(by_id, struct gf_node, gf_order(one->id, other->id))

/*
 * Sorts cores and nodes. To a node without CPUs, hwloc assigns the CPUs of an earlier node. They are counted
 * only for the earlier node.
 */
static void put_in_order(struct gf_machine *machine)
{
    struct gf_cpus taken = {0};

    qsort(machine->nodes, machine->node_count, sizeof(*machine->nodes), by_id);
    qsort(machine->cores, machine->core_count, sizeof(*machine->cores), by_first_cpu);
    for (size_t i = 0; i < machine->node_count; i++) {
        struct gf_node *node = &machine->nodes[i];
        node->has_memory = node->memory_bytes > 0;
        if (gf_set_meet(&node->cpus, &taken))
            node->cpus = (struct gf_cpus){0};
        gf_set_or(&taken, &taken, &node->cpus);
    }
}

int gf_topology_read(const char *recorded, struct gf_machine *ret)
{
    hwloc_topology_t topology;
    int error;

    if (recorded && *recorded && gf_input_access_in(recorded, "topology.xml", R_OK)) {
        error = read_xml(recorded, ret);
    } else if (!(error = open_topology(recorded, &topology))) {
        to_cpus(hwloc_get_root_obj(topology)->cpuset, &ret->online);
        error = read_cores(topology, ret);
        if (!error)
            error = read_nodes(topology, ret);
        hwloc_topology_destroy(topology);
    }
    if (!error)
        put_in_order(ret);
    return error;
}

int gf_topology_export(char **ret, size_t *ret_length)
{
    hwloc_topology_t topology;
    char *text;
    int length, error = open_topology(NULL, &topology);

    if (error)
        return error;
    errno = 0;
    if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0)) {
        error = hwloc_error();
    } else {
        *ret_length = (size_t)length - 1; /* hwloc counts the final null byte */
        *ret = strndup(text, *ret_length);
        error = *ret ? 0 : -ENOMEM;
        hwloc_free_xmlbuffer(topology, text);
    }
    hwloc_topology_destroy(topology);
    return error;
}
