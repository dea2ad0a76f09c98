/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as the driver names it, with its NUMA node as the driver and NVML report it. */
#ifndef GF_ENGINE_MACHINE_GPU_H
#define GF_ENGINE_MACHINE_GPU_H

#include "base/base.h"

struct gf_cuda;

struct gf_gpu {
    char bdf[20]; /* PCI address in lower case; "" if the driver does not report it */
    char name[64];
    int device;    /* the driver's ordinal in this process */
    int attr_node; /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; -1 if unknown */
    int nvml_node; /* NVML's memory affinity; -1 if unknown */
};

/*
 * Asks NVML for the node of every device, if the process itself has loaded NVML. Called once,
 * before the first gf_gpu_read, and only on the engine's thread, because the look-up takes the
 * loader's lock.
 */
void gf_gpu_ask_nvml(const struct gf_cuda *cuda);

/* Reads the driver's data of a device. With ask_node, also reads the NUMA nodes. Any thread. */
void gf_gpu_read(const struct gf_cuda *cuda, int device, bool ask_node, struct gf_gpu *ret);

#endif
