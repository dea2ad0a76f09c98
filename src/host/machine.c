/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine.h"

#include "base/fmt.h"
#include "base/input_file.h"
#include "os/procfs.h"

#include <stdlib.h>

void gf_machine_free(struct gf_machine *machine)
{
    if (!machine)
        return;
    free(machine->nodes);
    free(machine->distances);
    free(machine->cores);
    free(machine->gpus);
    free(machine);
}

const struct gf_node *gf_machine_node(const struct gf_machine *machine, unsigned id)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (machine->nodes[i].id == id)
            return &machine->nodes[i];
    return NULL;
}

unsigned gf_machine_distance(const struct gf_machine *machine, unsigned from, unsigned to)
{
    const struct gf_node *a = gf_machine_node(machine, from), *b = gf_machine_node(machine, to);
    if (!a || !b || !machine->distances)
        return 0;
    return machine->distances[(size_t)(a - machine->nodes) * machine->node_count +
                              (size_t)(b - machine->nodes)];
}

void gf_machine_package_cpus(const struct gf_machine *machine, int package, struct gf_cpus *ret)
{
    *ret = (struct gf_cpus){0};
    for (size_t i = 0; i < machine->node_count; i++)
        if (package >= 0 && machine->nodes[i].package == package)
            gf_set_or(ret, ret, &machine->nodes[i].cpus);
}

#define DEVICES "sys/bus/pci/devices"
#define GPUS_MOST 256 /* a recorded machine may have any number of links to one device */

int gf_pci_canonical(const char *bdf, char ret[20])
{
    unsigned long part[4];
    static const char ends[] = "::.";
    const char *at = bdf;

    for (int i = 0; i < 4; i++) {
        char *end;
        part[i] = strtoul(at, &end, 16);
        if (end == at || *end != ends[i] || *at == '-' || *at == '+' || *at == ' ')
            return -EINVAL;
        at = end + 1;
    }
    if (part[0] > 0xffffffff || part[1] > 0xff || part[2] > 0x1f || part[3] > 7)
        return -EINVAL;
    gf_fmt(ret, 20, "%04lx:%02lx:%02lx.%lu", part[0], part[1], part[2], part[3]);
    return 0;
}

bool gf_pci_is_canonical(const char *name)
{
    char canonical[20];
    return gf_pci_canonical(name, canonical) == 0 && strcmp(name, canonical) == 0;
}

static bool is_nvidia_gpu(const char *root, const char *bdf)
{
    char text[32];

    if (gf_procfs_read(text, sizeof(text), root, DEVICES "/%s/vendor", bdf) < 0 ||
        strcmp(text, "0x10de") != 0)
        return false;
    if (gf_procfs_read(text, sizeof(text), root, DEVICES "/%s/class", bdf) < 0)
        return false;
    return gf_begins(text, "0x0300") || gf_begins(text, "0x0302");
}

/* Reads the device with the address bdf, which is in canonical spelling. */
static int read_device(const char *root, const char *bdf, struct gf_pci *ret)
{
    char text[4096];

    *ret = (struct gf_pci){.numa_node = -1};
    /*
     * Every PCI device has the file `vendor`; the other files depend on the kernel's configuration.
     */
    if (gf_procfs_read(text, sizeof(text), root, DEVICES "/%s/vendor", bdf) < 0)
        return -ENOENT;
    gf_fmt(ret->bdf, sizeof(ret->bdf), "%s", bdf);
    if (gf_procfs_read(text, sizeof(text), root, DEVICES "/%s/numa_node", bdf) > 0)
        ret->numa_node = (int)strtol(text, NULL, 10);
    if (gf_procfs_read(text, sizeof(text), root, DEVICES "/%s/local_cpulist", bdf) > 0)
        gf_set_parse(text, &ret->cpus);
    return 0;
}

GF_COMPARATOR(by_bdf, struct gf_pci, strcmp(one->bdf, other->bdf))

static int append_gpu(struct gf_machine *machine, const struct gf_pci *device)
{
    struct gf_pci *grown =
        realloc(machine->gpus, (machine->gpu_count + 1) * sizeof(*machine->gpus));
    if (!grown)
        return -ENOMEM;
    machine->gpus = grown;
    grown[machine->gpu_count++] = *device;
    qsort(grown, machine->gpu_count, sizeof(*grown), by_bdf);
    return 0;
}

int gf_pci_gpus(const char *root, struct gf_machine *machine)
{
    int error = 0;
    GF_FOLDER_IN(folder, root, "/" DEVICES);

    for (const char *name;
         !error && machine->gpu_count < GPUS_MOST && (name = gf_folder_next(&folder));) {
        struct gf_pci device;
        char bdf[20];
        if (gf_pci_canonical(name, bdf) == 0 && is_nvidia_gpu(root, bdf) &&
            read_device(root, bdf, &device) == 0)
            error = append_gpu(machine, &device);
    }
    return error;
}

int gf_pci_add(struct gf_machine *machine, const char *recorded, const char *bdf)
{
    struct gf_pci device;
    char canonical[20];

    if (gf_pci_gpu(machine, bdf))
        return 0;
    if (gf_pci_canonical(bdf, canonical) ||
        read_device(recorded ? recorded : "", canonical, &device))
        return -ENOENT;
    return append_gpu(machine, &device);
}

const struct gf_pci *gf_pci_gpu(const struct gf_machine *machine, const char *bdf)
{
    char canonical[20];

    if (gf_pci_canonical(bdf, canonical))
        return NULL;
    for (size_t i = 0; i < machine->gpu_count; i++)
        if (strcmp(machine->gpus[i].bdf, canonical) == 0)
            return &machine->gpus[i];
    return NULL;
}
