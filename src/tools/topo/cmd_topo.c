/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output_file.h"
#include "config/options.h"
#include "host/machine_load.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/topo/topo.h"

#define SCHEMA 1
#define JSON_LIST_MAX 4096

static json_t *cpus_json(const struct gf_cpus *cpus)
{
    char list[JSON_LIST_MAX];
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

static json_t *topo_json(const struct gf_topo *topo)
{
    const struct gf_machine *machine = topo->machine;

    return json_pack("{s:i, s:s, s:b, s:o, s:o, s:o, s:o}", "schema", SCHEMA, "version", GF_VERSION,
                     "recorded", machine->recorded, "nodes",
                     GF_JSON_LIST(i, machine->node_count, node_json(machine, &machine->nodes[i])),
                     "gpus", GF_JSON_LIST(i, topo->gpu_count, gpu_json(&topo->gpus[i])),
                     "device_order_doubt", gf_json_text(topo->visible.doubt), "process",
                     process_json(&topo->facts));
}

#define LIST_MAX 512

static const char *cpus_text(const struct gf_cpus *cpus)
{
    return gf_set_empty(cpus) ? "none" : gf_set_text(cpus, LIST_MAX);
}

/* Whether the node has nothing. Linux makes such nodes for memory that may be added later. */
static bool is_empty(const struct gf_node *node)
{
    return gf_set_empty(&node->cpus) && !node->has_memory && !node->is_device && node->package < 0;
}

/* Prints a node, or a run of empty nodes, in which `last` is the last one. */
static void print_node(const struct gf_node *node, const struct gf_node *last)
{
    if (last == node)
        printf("node %-4u ", node->id);
    else
        printf("nodes %u-%u ", node->id, last->id);
    if (gf_set_empty(&node->cpus))
        printf("no CPUs");
    else
        printf("CPUs %s (%u)", cpus_text(&node->cpus), gf_set_count(&node->cpus));
    if (node->has_memory)
        printf(", %.1f GiB", (double)node->memory_bytes / (1024. * 1024. * 1024.));
    else
        printf(", no memory");
    if (node->is_device)
        printf(node->is_gpu ? ", memory of a GPU, not for host pages"
                            : ", memory without CPUs, used when other nodes are full");
    if (node->package >= 0)
        printf(", socket %d", node->package);
    putchar('\n');
}

static void print_gpu(const struct gf_topo_gpu *gpu)
{
    printf("GPU %s", gpu->bdf);
    if (gpu->name[0])
        printf("  %s", gpu->name);
    if (!gpu->visible)
        printf(", hidden");
    else if (gpu->device >= 0)
        printf(", device %d", gpu->device);
    if (!gpu->source) {
        puts("\n    node unknown: /sys has neither the GPU's numa_node nor its local_cpulist; the "
             "library binds no thread to the GPU's node");
        return;
    }
    printf("\n    node %s (%s)", gf_set_text(&gpu->nodes, LIST_MAX), gpu->source);
    printf(", nearest CPUs %s", cpus_text(&gpu->cpus));
    if (gf_set_empty(&gpu->usable)) {
        printf("; this process may not use any of them");
        if (gpu->nearest >= 0)
            printf(", the nearest CPUs that it may use are on node %d", gpu->nearest);
    } else if (!gf_set_equal(&gpu->usable, &gpu->cpus)) {
        printf("; this process may use %s", cpus_text(&gpu->usable));
    }
    putchar('\n');
}

static void print_process(const struct gf_topo *topo)
{
    const struct gf_facts *facts = &topo->facts;

    printf("this process\n    may use CPUs %s (%u)", cpus_text(&facts->start),
           gf_set_count(&facts->start));
    if (!gf_set_equal(&facts->start, &facts->cpuset))
        printf(" of %s", cpus_text(&facts->cpuset));
    printf(", memory of node %s\n",
           gf_set_empty(&facts->mems) ? "unknown" : gf_set_text(&facts->mems, LIST_MAX));
    if (facts->cpu_quota > 0)
        printf("    has a CPU quota of %.1f CPUs\n", facts->cpu_quota);
    if (facts->pinning_source)
        printf("    has threads pinned by %s\n", facts->pinning_source);
    if (facts->binder_source)
        printf("    is bound by %s\n", facts->binder_source);
    if (facts->rank.local_rank >= 0 && facts->rank.local_size > 0)
        printf("    is local rank %d of %d (%s)\n", facts->rank.local_rank, facts->rank.local_size,
               facts->rank.source);
    else if (facts->rank.local_rank >= 0)
        printf("    is local rank %d (%s)\n", facts->rank.local_rank, facts->rank.source);
    if (facts->start_policy < 0)
        puts("    may not set memory policies: a page is on the node of the thread that touches it "
             "first");
}

static void print_topo(const struct gf_topo *topo)
{
    const struct gf_machine *machine = topo->machine;

    if (machine->recorded)
        puts("a recorded machine");
    for (size_t i = 0, last; i < machine->node_count; i = last + 1) {
        last = i;
        while (last + 1 < machine->node_count && is_empty(&machine->nodes[i]) &&
               is_empty(&machine->nodes[last + 1]) &&
               machine->nodes[last + 1].id == machine->nodes[last].id + 1)
            last++;
        print_node(&machine->nodes[i], &machine->nodes[last]);
    }
    for (size_t i = 0; i < topo->gpu_count; i++)
        print_gpu(&topo->gpus[i]);
    if (!topo->gpu_count)
        puts("no NVIDIA GPU");
    else if (topo->visible.doubt)
        printf("CUDA may number the GPUs in another order: %s\n", topo->visible.doubt);
    print_process(topo);
}

struct arguments {
    bool json;
    const char *machine; /* NULL: use GPUFEED_MACHINE, if it is set */
    const char *record;
};

static void print_topo_help(void)
{
    puts("Usage: gpufeed topo [--json] [--machine FOLDER]\n"
         "       gpufeed topo --record FOLDER\n\n"
         "Shows the NUMA nodes with their CPUs and memory, the GPUs with their node and\n"
         "where the node was read, and which of them this process may use.\n\n"
         "  --json            print JSON\n"
         "  --machine FOLDER  show a recorded machine\n"
         "  --record FOLDER   record this machine, for --machine and GPUFEED_MACHINE\n\n"
         "Exit code: 0; 1 if the machine cannot be read or recorded; 2 if the command line\n"
         "is not valid.");
}

enum { FLAG_JSON = 1, FLAG_MACHINE, FLAG_RECORD };

static const struct option flags[] = {
    {"json", no_argument, NULL, FLAG_JSON},
    {"machine", required_argument, NULL, FLAG_MACHINE},
    {"record", required_argument, NULL, FLAG_RECORD},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

static int read_topo_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct arguments *ret = closure;

    if (code == GF_FLAG_NO_VALUE)
        return gf_cli_fail(GF_EXIT_USAGE, "--%s needs a folder", reader->flag->name);
    if (code == FLAG_JSON)
        ret->json = true;
    else
        *(code == FLAG_MACHINE ? &ret->machine : &ret->record) = optarg;
    return GF_EXIT_OK;
}

static int record_machine(const char *folder)
{
    const int error = gf_recording_write(folder);

    if (!error) {
        printf("wrote %s\n", folder);
        return GF_EXIT_OK;
    }
    return gf_cli_fail(GF_EXIT_FAILED, "cannot record into %s: %s", folder,
                       gf_output_reason(error));
}

static int show_machine(const char *root, bool json)
{
    static struct gf_topo topo;
    struct gf_machine *machine;

    const int error = gf_machine_load(root, &machine);
    if (error)
        return gf_cli_fail(GF_EXIT_FAILED, "%s", gf_cli_machine_reason(root, error));
    gf_topo_gather(machine, root, &topo);
    if (json)
        gf_cli_print_json(topo_json(&topo));
    else
        print_topo(&topo);
    gf_machine_free(machine);
    return GF_EXIT_OK;
}

int gf_cmd_topo(int argc, char **argv)
{
    static const struct gf_words words = {.help = print_topo_help, .flag = read_topo_flag};
    static struct gf_options options;
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flags};
    struct arguments arguments = {0};
    int code;

    if (!gf_flags_read(&reader, &words, &arguments, &code))
        return code;
    if (arguments.record)
        return record_machine(arguments.record);
    gf_options_load(&options, environ);
    return show_machine(arguments.machine ? arguments.machine : options.machine, arguments.json);
}
