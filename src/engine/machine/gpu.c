/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/gpu.h"

#include "abi/cuda.h"
#include "base/fmt.h"
#include "engine/machine/nvml.h"

#include <ctype.h>

#define DEVICES_MAX 64
#define BDF_SIZE sizeof(((struct gf_gpu *)0)->bdf)

static int nvml_nodes[DEVICES_MAX]; /* the node of each GPU, by the driver's ordinal */
static size_t nvml_count;

static int attribute_node(const struct gf_cuda *cuda, CUdevice device)
{
    int node = -1;
    if (!cuda->cuDeviceGetAttribute ||
        cuda->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS)
        return -1;
    return node;
}

/* Reads the PCI address in lower case; "" if the driver does not report it. */
static void read_bdf(const struct gf_cuda *cuda, int device, char ret[BDF_SIZE])
{
    if (!cuda->cuDeviceGetPCIBusId ||
        cuda->cuDeviceGetPCIBusId(ret, (int)BDF_SIZE, device) != CUDA_SUCCESS)
        ret[0] = '\0';
    for (char *p = ret; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

void gf_gpu_ask_nvml(const struct gf_cuda *cuda)
{
    struct gf_nvml nvml;
    char bdf[BDF_SIZE];
    int count = 0;

    if (!cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        !gf_nvml_open(&nvml))
        return;
    nvml_count = (size_t)gf_min(count, DEVICES_MAX);
    for (size_t device = 0; device < nvml_count; device++) {
        read_bdf(cuda, (int)device, bdf);
        nvml_nodes[device] = *bdf ? gf_nvml_node(&nvml, bdf) : -1;
    }
    gf_nvml_close(&nvml);
}

void gf_gpu_read(const struct gf_cuda *cuda, int device, bool ask_node, struct gf_gpu *ret)
{
    *ret = (struct gf_gpu){.device = device, .attr_node = -1, .nvml_node = -1};
    if (!cuda->cuDeviceGetName ||
        cuda->cuDeviceGetName(ret->name, sizeof(ret->name), device) != CUDA_SUCCESS)
        gf_fmt(ret->name, sizeof(ret->name), "unknown");
    read_bdf(cuda, device, ret->bdf);
    if (!ask_node)
        return;
    ret->attr_node = attribute_node(cuda, device);
    if (device >= 0 && (size_t)device < nvml_count)
        ret->nvml_node = nvml_nodes[device];
}
