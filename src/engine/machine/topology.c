/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/topology.h"

#include "base/fmt.h"
#include "engine/machine/private/hwloc_env.h"
#include "engine/machine/topology_synthetic.h"
#include "engine/machine/topology_xml.h"
#include "os/procfs.h"

#include <hwloc.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char path[GF_PROCFS_PATH_MAX], description[8192];

    if (!recorded || !*recorded) {
        /*
         * The result is ignored: on other processors, hwloc lacks the component and refuses its
         * name.
         */
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
        return 0;
    }
    gf_fmt(path, sizeof(path), "%s/topology.xml", recorded);
    if (access(path, R_OK) == 0)
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

static int package_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
    return package ? (int)package->logical_index : -1;
}

static int by_first_cpu(const void *a, const void *b)
{
    const struct gf_core *x = a, *y = b;
    return gf_set_next(&x->cpus, 0) - gf_set_next(&y->cpus, 0);
}

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
        to_cpus(object->cpuset, &machine->cores[i].cpus);
        machine->cores[i].package = package_of(topology, object);
    }
    machine->core_count = (size_t)count;
    qsort(machine->cores, machine->core_count, sizeof(*machine->cores), by_first_cpu);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct gf_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

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
