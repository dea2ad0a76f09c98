/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the clocks of GPUs from NVML while the program uses NVML. NVML is neither loaded nor
 * initialised, because that would open descriptors in the program's table.
 */
#ifndef GF_ENGINE_MACHINE_GPU_CLOCK_H
#define GF_ENGINE_MACHINE_GPU_CLOCK_H

#include "base/base.h"

struct gf_cuda;

/*
 * Finds NVML, if the program has loaded it since the last call, and then starts the thread that
 * reads the clocks. Called on the library's thread,
 * because it takes the loader's lock.
 */
void gf_gpu_clock_find(const struct gf_cuda *cuda);

/*
 * By how many thousandths the clock of the GPU's SMs was below the highest one at the last reading;
 * 0 if unknown. Requests the next reading, and does not wait for it. device: the driver's ordinal.
 * Called on the sampler's thread.
 */
unsigned gf_gpu_clock_loss(unsigned device);

#endif
