/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/nvml.h"

#include "base/cpus.h"

#include <dlfcn.h>
#include <string.h>

#define NODE_WORDS (GF_NODES_MAX / 64)
enum { scope_node = 0 }; /* NVML_AFFINITY_SCOPE_NODE */

static bool find_functions(struct gf_nvml *nvml)
{
    *(void **)&nvml->init = dlsym(nvml->handle, "nvmlInit_v2");
    *(void **)&nvml->shutdown = dlsym(nvml->handle, "nvmlShutdown");
    *(void **)&nvml->by_bus_id = dlsym(nvml->handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->memory_affinity = dlsym(nvml->handle, "nvmlDeviceGetMemoryAffinity");
    return nvml->init && nvml->shutdown && nvml->by_bus_id && nvml->memory_affinity;
}

bool gf_nvml_open(struct gf_nvml *ret)
{
    ret->handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!ret->handle)
        return false;
    /*
     * NVML counts its calls of init and shutdown, so these calls do not disturb the program's own
     * use of NVML.
     */
    if (find_functions(ret) && ret->init() == 0)
        return true;
    dlclose(ret->handle);
    return false;
}

void gf_nvml_close(struct gf_nvml *nvml)
{
    nvml->shutdown();
    dlclose(nvml->handle);
}

int gf_nvml_node(const struct gf_nvml *nvml, const char *bdf)
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
