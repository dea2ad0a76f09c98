/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and temperatures of the machine's GPUs while a command runs. A thread reads them by NVML
 * twice per second, and skips idle GPUs.
 */
#pragma once

#include "base/base.h"

/* Sums over readings. Without NVML or a busy GPU, `readings` is 0. */
struct gf_gpu_clock {
    double readings;
    double mhz;     /* sum of the multiprocessors' clocks */
    double celsius; /* highest temperature */
    double limited; /* number of readings at which heat or the power limit lowered the clock */
};

/*
 * Starts the thread that reads the clocks; gf_gpu_clock_end stops it, and adds its readings to
 * *add. Only one such thread can run.
 */
void gf_gpu_clock_begin(void);
void gf_gpu_clock_end(struct gf_gpu_clock *add);

/* Adds `more`. */
void gf_gpu_clock_add(struct gf_gpu_clock *clock, const struct gf_gpu_clock *more);
