/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that a program would see here, and whether it may run beside them. */
#include "cli/doctor.h"

#include "host/sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_MAX 256

/* GPUs of WSL and of Jetson are no PCI devices. */
static bool advise_beside_pci(const struct gf_patient *patient, struct gf_advices *ret)
{
    static const char *const devices[] = {"/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu"};
    char path[GF_SYSFILE_PATH_MAX];

    for (size_t i = 0; i < GF_ARRAY_LEN(devices); i++) {
        snprintf(path, sizeof(path), "%s%s", patient->root, devices[i]);
        if (access(path, F_OK) == 0) {
            gf_advise(ret, gf_health_unknown, "GPUs behind %s are not told by the PCI bus", devices[i]);
            return true;
        }
    }
    return false;
}

void gf_check_gpus(const struct gf_patient *patient, struct gf_advices *ret)
{
    const struct gf_topo *topo = patient->topo;

    if (topo->visible.count) {
        gf_advise(ret, gf_health_fine, "%zu GPU%s to be seen here%s", topo->visible.count,
                  topo->visible.count == 1 ? " is" : "s are", topo->visible.doubt ? ", or fewer" : "");
        if (topo->visible.doubt)
            gf_advise_read(&ret->list[ret->count - 1], "%s", topo->visible.doubt);
        return;
    }
    if (!topo->gpu_count && advise_beside_pci(patient, ret))
        return;
    struct gf_advice *advice =
        topo->gpu_count ? gf_advise(ret, gf_health_mend, "a program sees none of the GPUs here (%zu)", topo->gpu_count)
                        : gf_advise(ret, gf_health_mend, "there is no NVIDIA GPU here");
    gf_advise_read(advice, "/sys/bus/pci/devices, /proc/driver/nvidia/gpus, /dev/nvidia*, CUDA_VISIBLE_DEVICES");
    gf_advise_mend(advice, "programs run as they are: nothing is placed and nothing staged",
                   "docker run --gpus all (Kubernetes: the limit nvidia.com/gpu; Slurm: --gpus), the driver's "
                   "module on the host, CUDA_VISIBLE_DEVICES");
}

static const struct gf_topo_gpu *next_visible(const struct gf_topo *topo, size_t *at)
{
    while (*at < topo->gpu_count)
        if (topo->gpus[(*at)++].visible)
            return &topo->gpus[*at - 1];
    return NULL;
}

static long link_value(const struct gf_patient *patient, const char *bdf, const char *file)
{
    char text[32];
    const int length = gf_sysfile_read(text, sizeof(text), patient->root, "sys/bus/pci/devices/%s/%s", bdf, file);
    return length > 0 ? strtol(text, NULL, 10) : 0;
}

/* The width only: an idle GPU lowers its link's speed. Virtual machines show 0, 63 or 255. */
void gf_check_links(const struct gf_patient *patient, struct gf_advices *ret)
{
    const struct gf_topo_gpu *gpu;

    for (size_t at = 0; (gpu = next_visible(patient->topo, &at));) {
        const long now = link_value(patient, gpu->bdf, "current_link_width");
        const long most = link_value(patient, gpu->bdf, "max_link_width");
        if (now <= 0 || now > 32 || most <= 0 || most > 32)
            continue;
        if (now >= most) {
            gf_advise(ret, gf_health_fine, "GPU %s has all %ld lanes of its link", gpu->bdf, most);
            continue;
        }
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "GPU %s has %ld of %ld lanes", gpu->bdf, now, most);
        gf_advise_read(advice, "/sys/bus/pci/devices/%s/current_link_width: %ld, max_link_width: %ld", gpu->bdf, now, most);
        gf_advise_mend(advice, "no copy can be faster than the link",
                       "another slot, reseating the card or its riser, the slot's bifurcation in the firmware");
    }
}

static const char *device_file(const struct gf_patient *patient, const char *bdf, const char *file, char *ret, size_t size)
{
    const int length = gf_sysfile_read(ret, size, patient->root, "sys/bus/pci/devices/%s/%s", bdf, file);
    return length < 0 ? "none" : length == 0 ? "empty" : ret;
}

void gf_check_nodes(const struct gf_patient *patient, struct gf_advices *ret)
{
    const struct gf_topo *topo = patient->topo;
    const struct gf_topo_gpu *gpu;
    char list[LIST_MAX], node[16];

    if (topo->machine->node_count < 2) {
        if (topo->visible.count)
            gf_advise(ret, gf_health_fine, "one NUMA node: everything is near the GPU");
        return;
    }
    for (size_t at = 0; (gpu = next_visible(topo, &at));) {
        if (gpu->source) {
            gf_advise(ret, gf_health_fine, "GPU %s is on node %s (%s)", gpu->bdf,
                      gf_set_format(&gpu->nodes, list, sizeof(list)), gpu->source);
            continue;
        }
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "GPU %s: nothing tells its NUMA node", gpu->bdf);
        gf_advise_read(advice, "/sys/bus/pci/devices/%s/numa_node: %s; local_cpulist: %s", gpu->bdf,
                       device_file(patient, gpu->bdf, "numa_node", node, sizeof(node)),
                       device_file(patient, gpu->bdf, "local_cpulist", list, sizeof(list)));
        gf_advise_mend(advice, "threads and memory stay wherever they are, unless the driver knows more when the program runs",
                       "NUMA in the firmware's settings; in a virtual machine the hypervisor's topology "
                       "(QEMU: pxb-pcie,numa_node=N)");
    }
}

void gf_check_cpus(const struct gf_patient *patient, struct gf_advices *ret)
{
    const struct gf_topo_gpu *gpu;
    char near[LIST_MAX], may[LIST_MAX];

    if (patient->topo->machine->node_count < 2)
        return;
    for (size_t at = 0; (gpu = next_visible(patient->topo, &at));) {
        if (!gpu->source)
            continue;
        gf_set_format(&gpu->cpus, near, sizeof(near));
        if (!gf_set_empty(&gpu->usable)) {
            gf_advise(ret, gf_health_fine, "GPU %s: %u of the %u CPUs of its node may be used", gpu->bdf,
                      gf_set_count(&gpu->usable), gf_set_count(&gpu->cpus));
            continue;
        }
        struct gf_advice *advice = gf_advise(ret, gf_health_mend, "GPU %s: no CPU of its node may be used", gpu->bdf);
        gf_advise_read(advice, "its node has CPUs %s, this process may use %s", near,
                       gf_set_format(&patient->topo->facts.start, may, sizeof(may)));
        gf_advise_mend(advice, "all that is copied crosses between the sockets, and so does each wake-up",
                       "docker run --cpuset-cpus %s (Kubernetes: the static CPU manager with topology policy "
                       "single-numa-node; Slurm: --gpu-bind=closest)", near);
    }
}
