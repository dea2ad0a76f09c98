/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML knows the node of a GPU where the firmware tells the kernel nothing. It is asked once, when
 * the engine starts, on the library's own thread (a lookup takes the loader's lock), and only in a
 * process that has loaded it for purposes of its own: opening it would be noticed.
 */
#include "engine/state.h"

#include <dlfcn.h>
#include <string.h>

#define NODE_WORDS (GF_NODES_MAX / 64)
enum { scope_node = 0 }; /* NVML_AFFINITY_SCOPE_NODE */

struct nvml {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*memory_affinity)(void *device, unsigned words, unsigned long *ret_nodes, unsigned scope);
};

static int node_of[64]; /* by the driver's ordinal */
static size_t known;

static bool open_loaded(struct nvml *ret)
{
    ret->handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!ret->handle)
        return false;
    *(void **)&ret->init = dlsym(ret->handle, "nvmlInit_v2");
    *(void **)&ret->shutdown = dlsym(ret->handle, "nvmlShutdown");
    *(void **)&ret->by_bus_id = dlsym(ret->handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&ret->memory_affinity = dlsym(ret->handle, "nvmlDeviceGetMemoryAffinity");
    return ret->init && ret->shutdown && ret->by_bus_id && ret->memory_affinity;
}

static int ask(const struct nvml *nvml, const char *bdf)
{
    struct gf_nodes nodes = {0};
    unsigned long words[NODE_WORDS] = {0};
    void *device;

    if (nvml->by_bus_id(bdf, &device) != 0 ||
        nvml->memory_affinity(device, NODE_WORDS, words, scope_node) != 0)
        return -1;
    memcpy(nodes.word, words, sizeof(words));
    return gf_set_next(&nodes, 0);
}

void gf_nvml_read(void)
{
    const struct gf_cuda *cuda = gf_process.door->cuda;
    struct nvml nvml;
    char bdf[20];
    int count = 0;

    if (!cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return;
    /* Init and shutdown count: the program's own use of NVML is not disturbed. */
    if (open_loaded(&nvml) && nvml.init() == 0) {
        for (known = 0; known < gf_min((size_t)count, GF_ARRAY_LEN(node_of)); known++)
            node_of[known] = gf_gpu_bdf((int)known, bdf, sizeof(bdf)) ? ask(&nvml, bdf) : -1;
        nvml.shutdown();
    }
    if (nvml.handle)
        dlclose(nvml.handle);
}

int gf_nvml_node(int device)
{
    return device >= 0 && (size_t)device < known ? node_of[device] : -1;
}
