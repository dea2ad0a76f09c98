/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo/topo.h"

#include "base/fmt.h"
#include "base/input_file.h"
#include "base/parse.h"
#include "host/locate.h"
#include "host/machine_load.h"
#include "os/procfs.h"
#include "tools/common/text.h"

#include <sched.h>
#include <stdlib.h>
#include <strings.h>

/*
 * Copies the text of the line that begins with the key: of "Model: \t\t NVIDIA H200", "NVIDIA H200".
 */
static void read_field(const char *text, const char *key, char *ret, size_t size)
{
    gf_procfs_copy(text, key, ret, size);
    gf_plain_text(ret);
}

/*
 * Whether the process may open the GPU's device node. A container may lack the node, or deny access
 * to it.
 */
static bool may_open(const char *root, const char *minor, bool any_node)
{
    /* The check also checks the cgroup's device filter, and does not initialize the GPU as open() may. */
    return !*minor || !any_node ||
           gf_input_access_in(root, gf_text("/dev/nvidia%s", minor), R_OK | W_OK);
}

/*
 * Whether any GPU has a device node in /dev. After boot no GPU has one, because CUDA creates the
 * nodes at first use. So a missing node shows that a GPU is hidden only if another GPU has a node.
 */
static bool has_any_node(const char *root)
{
    bool found = false;

    GF_FOLDER_IN(folder, root, "/dev");
    for (const char *name; !found && (name = gf_folder_next(&folder));)
        found = strncmp(name, "nvidia", 6) == 0 && name[6] >= '0' && name[6] <= '9';
    return found;
}

static bool read_gpu(const char *root, const char *bdf, bool any_node, struct gf_visible_gpu *ret)
{
    char text[4096], minor[16] = "";

    memset(ret, 0, sizeof(*ret));
    snprintf(ret->bdf, sizeof(ret->bdf), "%.19s", bdf);
    if (gf_procfs_read(text, sizeof(text), root, "proc/driver/nvidia/gpus/%.32s/information", bdf) <
        0)
        return false;
    read_field(text, "Model", ret->model, sizeof(ret->model));
    read_field(text, "GPU UUID", ret->uuid, sizeof(ret->uuid));
    read_field(text, "Device Minor", minor, sizeof(minor));
    if (strchr(ret->uuid, '?')) /* the driver has not initialized the device yet */
        ret->uuid[0] = '\0';
    return may_open(root, minor, any_node);
}

GF_COMPARATOR(compare_bdf, struct gf_visible_gpu, strcasecmp(one->bdf, other->bdf))

void gf_visible_gpus_read(const struct gf_machine *machine, const char *root,
                          struct gf_visible_gpus *ret)
{
    const bool any_node = has_any_node(root);

    memset(ret, 0, sizeof(*ret));
    GF_FOLDER_IN(folder, root, "/proc/driver/nvidia/gpus");
    for (const char *name; ret->count < GF_VISIBLE_GPUS_MAX && (name = gf_folder_next(&folder));)
        if (gf_pci_is_canonical(name) && read_gpu(root, name, any_node, &ret->gpus[ret->count]))
            ret->count++;
    if (!folder.entries && machine && machine->recorded)
        for (size_t i = 0; i < machine->gpu_count && i < GF_VISIBLE_GPUS_MAX; i++)
            memcpy(ret->gpus[ret->count++].bdf, machine->gpus[i].bdf, sizeof(ret->gpus[0].bdf));
    qsort(ret->gpus, ret->count, sizeof(ret->gpus[0]), compare_bdf);
}

int gf_visible_gpus_record(const char *folder)
{
    struct gf_visible_gpus here;
    int error = 0;

    gf_visible_gpus_read(NULL, "", &here);
    for (size_t i = 0; i < here.count && !error; i++) {
        const struct gf_visible_gpu *gpu = &here.gpus[i];
        char text[256];
        const int length =
            snprintf(text, sizeof(text), "Model: %s\nGPU UUID: %s\n", gpu->model, gpu->uuid);
        error = gf_record_text(folder, gf_text("proc/driver/nvidia/gpus/%s/information", gpu->bdf),
                               text, (size_t)length);
    }
    return error;
}

/*
 * Whether CUDA lists the GPUs in the order of their PCI addresses. By default CUDA lists the
 * fastest GPU first; GPUs of the same model are in PCI order.
 */
static bool in_pci_order(const struct gf_visible_gpus *visible, const char *order)
{
    if (visible->count < 2 || (order && strcmp(order, "PCI_BUS_ID") == 0))
        return true;
    for (size_t i = 0; i < visible->count; i++)
        if (!visible->gpus[i].model[0] ||
            strcmp(visible->gpus[i].model, visible->gpus[0].model) != 0)
            return false;
    return true;
}

/*
 * Returns the index of the only GPU whose UUID begins with `word`, ignoring case; visible->count if
 * no GPU or several GPUs match.
 */
static size_t find_uuid(const struct gf_visible_gpus *visible, const char *word)
{
    size_t found = visible->count;

    for (size_t i = 0; i < visible->count; i++) {
        if (strncasecmp(visible->gpus[i].uuid, word, strlen(word)) != 0)
            continue;
        if (found < visible->count)
            return visible->count;
        found = i;
    }
    return found;
}

/*
 * Returns the index of the GPU that a word of CUDA_VISIBLE_DEVICES names. Returns visible->count if
 * the word names no GPU; this ends the list. Returns -EAGAIN, and the reason in *ret_doubt, if only
 * the driver can resolve the word.
 */
static int find_device(const struct gf_visible_gpus *visible, const char *word, bool pci_order,
                       const char **ret_doubt)
{
    uint64_t number;

    if (strncasecmp(word, "MIG-", 4) == 0) {
        *ret_doubt = "CUDA_VISIBLE_DEVICES names MIG instances";
        return -EAGAIN;
    }
    if (strncasecmp(word, "GPU-", 4) == 0) {
        for (size_t i = 0; i < visible->count; i++)
            if (!visible->gpus[i].uuid[0]) {
                *ret_doubt = "CUDA_VISIBLE_DEVICES names UUIDs that the driver does not list yet";
                return -EAGAIN;
            }
        return (int)find_uuid(visible, word);
    }
    if (gf_parse_u64(word, &number)) {
        if (*word < '0' || *word > '9')
            return (int)visible->count; /* words such as "-1" or "none" hide all GPUs */
        *ret_doubt = "CUDA_VISIBLE_DEVICES is not valid";
        return -EAGAIN;
    }
    if (number >= visible->count)
        return (int)visible->count;
    if (!pci_order) {
        *ret_doubt = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID";
        return -EAGAIN;
    }
    return (int)number;
}

void gf_visible_gpus_choose(struct gf_visible_gpus *visible)
{
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    const bool pci_order = in_pci_order(visible, getenv("CUDA_DEVICE_ORDER"));
    struct gf_visible_gpus chosen = {.ordered = true};
    bool taken[GF_VISIBLE_GPUS_MAX] = {false};

    visible->ordered = pci_order;
    if (!pci_order)
        visible->doubt = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID";
    if (!devices)
        return;
    visible->doubt = NULL;
    while (*devices) {
        char word[64];
        devices += strspn(devices, " \t");
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(devices, ", \t"), devices);
        int index = find_device(visible, word, pci_order, &chosen.doubt);
        if (index >= 0 && (size_t)index < visible->count && taken[index]) {
            chosen.doubt = "CUDA_VISIBLE_DEVICES names a device twice";
            index = -EAGAIN;
        }
        if (index == -EAGAIN) {
            visible->ordered = false;
            visible->doubt = chosen.doubt;
            return;
        }
        if ((size_t)index == visible->count)
            break; /* CUDA ignores the first invalid word and all later ones */
        taken[index] = true;
        chosen.gpus[chosen.count++] = visible->gpus[index];
        devices += strcspn(devices, ",");
        devices += *devices == ',';
    }
    *visible = chosen;
}

/*
 * Returns the node with usable CPUs that is nearest to one of `nodes`; -1 if distances are unknown.
 */
static int nearest_usable(const struct gf_topo *topo, const struct gf_nodes *nodes)
{
    const struct gf_machine *machine = topo->machine;
    const size_t count = machine->distances ? machine->node_count : 0;
    unsigned best = 0;
    int found = -1;

    for (size_t i = 0; i < count * count; i++) {
        const struct gf_node *from = &machine->nodes[i / count], *to = &machine->nodes[i % count];
        const unsigned distance = machine->distances[i];
        if (distance && (found < 0 || distance < best) && gf_set_test(nodes, from->id) &&
            gf_set_meet(&to->cpus, &topo->facts.start)) {
            best = distance;
            found = (int)to->id;
        }
    }
    return found;
}

/* Returns the index of a GPU in the list; -1 if it is not there. */
static int index_of(const struct gf_visible_gpus *list, const char *bdf)
{
    char canonical[20];

    for (size_t i = 0; i < list->count; i++)
        if (gf_pci_canonical(list->gpus[i].bdf, canonical) == 0 && strcmp(canonical, bdf) == 0)
            return (int)i;
    return -1;
}

static void add_gpu(struct gf_topo *topo, const struct gf_pci *pci)
{
    struct gf_topo_gpu *gpu = &topo->gpus[topo->gpu_count++];
    struct gf_gpu wanted = {.device = -1, .attr_node = -1, .nvml_node = -1};
    const int known = index_of(&topo->all, pci->bdf), index = index_of(&topo->visible, pci->bdf);

    memcpy(gpu->bdf, pci->bdf, sizeof(gpu->bdf));
    memcpy(wanted.bdf, pci->bdf, sizeof(wanted.bdf));
    gpu->name = known < 0 ? "" : topo->all.gpus[known].model;
    gpu->uuid = known < 0 ? "" : topo->all.gpus[known].uuid;
    gpu->visible = index >= 0;
    gpu->device = topo->visible.ordered ? index : -1;
    gpu->nearest = -1;
    if (!gf_locate(topo->machine, &wanted, &gpu->nodes, &gpu->source))
        return;
    gf_locate_cpus(topo->machine, &gpu->nodes, &gpu->cpus);
    gf_set_and(&gpu->usable, &gpu->cpus, &topo->facts.start);
    if (gf_set_empty(&gpu->usable))
        gpu->nearest = nearest_usable(topo, &gpu->nodes);
}

/*
 * Reads the CPU mask of the process that made the recording. Returns false if it is not recorded.
 */
static bool read_recorded_mask(const char *root, struct gf_cpus *ret)
{
    char text[4096], list[1024];

    return *root && gf_procfs_read(text, sizeof(text), root, "proc/self/status") > 0 &&
           gf_procfs_copy(text, "Cpus_allowed_list", list, sizeof(list)) &&
           gf_set_parse(list, ret) == 0 && !gf_set_empty(ret);
}

void gf_topo_gather(const struct gf_machine *machine, const char *root, struct gf_topo *ret)
{
    struct gf_cpus start = {0};

    memset(ret, 0, sizeof(*ret));
    ret->machine = machine;
    ret->has_mask = !*root || read_recorded_mask(root, &start);
    if (gf_set_empty(&start) && sched_getaffinity(0, sizeof(start), (cpu_set_t *)&start))
        start = machine->online;
    /* The limits belong to the process with this mask, which may be the recorded one. */
    gf_facts_gather(ret->has_mask ? root : "", environ, &start, &ret->facts);
    gf_visible_gpus_read(machine, root, &ret->all);
    ret->visible = ret->all;
    gf_visible_gpus_choose(&ret->visible);
    for (size_t i = 0; i < machine->gpu_count && ret->gpu_count < GF_VISIBLE_GPUS_MAX; i++)
        add_gpu(ret, &machine->gpus[i]);
}
