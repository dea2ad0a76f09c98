/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/* A GPU of the driver, with the NUMA nodes that the driver and NVML report for it. */

struct gf_cuda;

struct gf_gpu {
    char bdf[20]; /* PCI address in lower case; "" if the driver does not report it */
    char name[64];
    int device;    /* the driver's ordinal in this process */
    int attr_node; /* node of CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; -1 if unknown */
    int nvml_node; /* node of NVML's memory affinity; -1 if unknown */
    bool mps;      /* contexts of this device are shared with other processes through MPS */
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

/*
 * Reads the clocks of GPUs from NVML while the program uses NVML. NVML is neither loaded nor
 * initialised, because that would open descriptors in the program's table.
 */

/*
 * Finds NVML, if the program has loaded it since the last call, and then starts the thread that
 * reads the clocks. Called on the library's thread, because it takes the loader's lock.
 */
void gf_gpu_clock_find(const struct gf_cuda *cuda);

/*
 * By how many thousandths the clock of the GPU's SMs was below the highest one at the last reading;
 * 0 if unknown. Requests the next reading, and does not wait for it. device: the driver's ordinal.
 * Called on the sampler's thread.
 */
unsigned gf_gpu_clock_loss(unsigned device);
