/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/fmt.h"

#include <ctype.h>

static int attribute_node(const struct gf_cuda *cuda, CUdevice device)
{
    int node = -1;
    if (!cuda->cuDeviceGetAttribute ||
        cuda->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS)
        return -1;
    return node;
}

bool gf_gpu_bdf(int ordinal, char *ret, size_t size)
{
    const struct gf_cuda *cuda = gf_process.door->cuda;
    if (!cuda->cuDeviceGetPCIBusId ||
        cuda->cuDeviceGetPCIBusId(ret, (int)size, ordinal) != CUDA_SUCCESS)
        return false;
    for (char *p = ret; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return true;
}

void gf_gpu_read(int ordinal, bool attributes, struct gf_gpu *ret)
{
    const struct gf_cuda *cuda = gf_process.door->cuda;
    CUdevice device = ordinal;

    *ret = (struct gf_gpu){.device = ordinal, .attr_node = -1, .nvml_node = -1};
    if (!cuda->cuDeviceGetName ||
        cuda->cuDeviceGetName(ret->name, sizeof(ret->name), device) != CUDA_SUCCESS)
        gf_fmt(ret->name, sizeof(ret->name), "unknown");
    if (!gf_gpu_bdf(ordinal, ret->bdf, sizeof(ret->bdf)))
        ret->bdf[0] = '\0';
    if (!attributes)
        return;
    ret->attr_node = attribute_node(cuda, device);
    ret->nvml_node = gf_nvml_node(ordinal);
}
