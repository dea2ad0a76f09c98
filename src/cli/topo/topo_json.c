/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/jansson_text.h"
#include "cli/topo/topo.h"

#include <errno.h>
#include <stdio.h>

#define SCHEMA 1
#define LIST_MAX 4096

static json_t *cpus_json(const struct gf_cpus *cpus)
{
    char list[LIST_MAX];
    return json_string(gf_set_format(cpus, list, sizeof(list)));
}

static json_t *nodes_json(const struct gf_nodes *nodes)
{
    json_t *array = json_array();
    for (int id = gf_set_next(nodes, 0); id >= 0; id = gf_set_next(nodes, (unsigned)id + 1))
        json_array_append_new(array, json_integer(id));
    return array;
}

static json_t *number_or_null(int number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

static json_t *node_json(const struct gf_machine *machine, const struct gf_node *node)
{
    json_t *distances = json_array();

    for (size_t i = 0; i < machine->node_count; i++) {
        const unsigned distance = gf_machine_distance(machine, node->id, machine->nodes[i].id);
        json_array_append_new(distances, number_or_null(distance ? (int)distance : -1));
    }
    return json_pack("{s:i, s:o, s:o, s:i, s:I, s:b, s:b, s:o}", "id", (int)node->id, "socket",
                     number_or_null(node->package), "cpus", cpus_json(&node->cpus), "cpu_count",
                     (int)gf_set_count(&node->cpus), "memory_bytes", (json_int_t)node->memory_bytes,
                     "has_memory", node->has_memory, "device_memory", node->is_device, "distances",
                     distances);
}

static json_t *gpu_json(const struct gf_topo_gpu *gpu)
{
    return json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "pci", gpu->bdf, "name",
                     gf_json_text(gpu->name), "uuid", gf_json_text(gpu->uuid), "visible",
                     gpu->visible, "device", number_or_null(gpu->device), "nodes",
                     gpu->source ? nodes_json(&gpu->nodes) : json_null(), "node_source",
                     gf_json_text(gpu->source), "cpus", cpus_json(&gpu->cpus), "usable_cpus",
                     cpus_json(&gpu->usable), "nearest_usable_node", number_or_null(gpu->nearest));
}

static json_t *rank_json(const struct gf_rank *rank)
{
    if (!rank->source)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:s}", "local_rank", number_or_null(rank->local_rank),
                     "local_size", number_or_null(rank->local_size), "rank",
                     number_or_null(rank->rank), "source", rank->source);
}

static json_t *process_json(const struct gf_facts *facts)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:b}", "cpus", cpus_json(&facts->start), "cpuset",
        cpus_json(&facts->cpuset), "memory_nodes", nodes_json(&facts->mems), "cpu_quota",
        facts->cpu_quota > 0 ? json_real(facts->cpu_quota) : json_null(), "memory_policy_permitted",
        facts->start_policy >= 0, "pinned_by", gf_json_text(facts->pinning_source), "bound_by",
        gf_json_text(facts->binder_source), "rank", rank_json(&facts->rank), "numa_balancing",
        facts->numa_balancing);
}

int gf_topo_print_json(const struct gf_topo *topo)
{
    const struct gf_machine *machine = topo->machine;
    json_t *nodes = json_array(), *gpus = json_array();

    for (size_t i = 0; i < machine->node_count; i++)
        json_array_append_new(nodes, node_json(machine, &machine->nodes[i]));
    for (size_t i = 0; i < topo->gpu_count; i++)
        json_array_append_new(gpus, gpu_json(&topo->gpus[i]));
    json_t *all =
        json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o}", "schema", SCHEMA, "version", GF_VERSION,
                  "recorded", machine->recorded, "nodes", nodes, "gpus", gpus, "device_order_doubt",
                  gf_json_text(topo->visible.doubt), "process", process_json(&topo->facts));
    if (!all || json_dumpf(all, stdout, JSON_INDENT(2))) {
        json_decref(all);
        return -ENOMEM;
    }
    putchar('\n');
    json_decref(all);
    return 0;
}
