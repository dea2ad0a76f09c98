/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU of the driver, with the NUMA nodes that the driver and NVML report for it. */
#ifndef GF_ENGINE_MACHINE_GPU_H
#define GF_ENGINE_MACHINE_GPU_H

#include "base/base.h"

struct gf_cuda;

struct gf_gpu {
    char bdf[20]; /* PCI address in lower case; "" if the driver does not report it */
    char name[64];
    int device;    /* the driver's ordinal in this process */
    int attr_node; /* node of CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; -1 if unknown */
    int nvml_node; /* node of NVML's memory affinity; -1 if unknown */
};

/*
 * If the program has loaded NVML, reads the node of every device from it. Called once, before the
 * first gf_gpu_read, and only on the library's thread, because finding NVML takes the loader's
 * lock.
 */
void gf_gpu_ask_nvml(const struct gf_cuda *cuda);

/*
 * Reads the driver's data of a device. ask_node: also read the NUMA nodes. May be called on any
 * thread.
 */
void gf_gpu_read(const struct gf_cuda *cuda, int device, bool ask_node, struct gf_gpu *ret);

#endif
