/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and temperatures of the machine's GPUs while a command runs. A thread reads them by NVML twice a
 * second; GPUs that have no work then do not count.
 */
#ifndef GF_CLI_COMPARE_GPU_CLOCK_H
#define GF_CLI_COMPARE_GPU_CLOCK_H

#include "base/base.h"

/* Sums over readings. Without NVML, and without a busy GPU, readings is 0. */
struct gf_gpu_clock {
    double readings;
    double mhz;     /* of the multiprocessors; sum */
    double celsius; /* the highest */
    double limited; /* readings at which heat or the power limit kept the clock down */
};

/* Begins to read; gf_gpu_clock_end stops it, and adds what was read. One command at a time. */
void gf_gpu_clock_begin(void);
void gf_gpu_clock_end(struct gf_gpu_clock *add);

/* Adds `more`. */
void gf_gpu_clock_add(struct gf_gpu_clock *clock, const struct gf_gpu_clock *more);

#endif
