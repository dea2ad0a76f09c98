/* SPDX-License-Identifier: Apache-2.0 */
/* The state of each GPU, as NVML reports it. A value is -1 if NVML does not report it. */
#ifndef GF_CLI_DOCTOR_GPU_STATE_H
#define GF_CLI_DOCTOR_GPU_STATE_H

#include "cli/doctor/finding.h"

enum {
    GF_FABRIC_NOT_STARTED = 1,
    GF_FABRIC_IN_PROGRESS = 2,
    GF_COMPUTE_PROHIBITED = 2,
};

struct gf_gpu_state {
    char bdf[20];
    int64_t persistence;      /* 0 or 1 */
    int64_t ecc, ecc_pending; /* 0 or 1: the mode now, and after a reset */
    int64_t ecc_errors;       /* uncorrected errors since the driver was loaded */
    /* 0 or 1: a row of memory is to be remapped, or could not be remapped. */
    int64_t remap_pending, remap_failed;
    int64_t slow_reasons;                /* bits of gf_slow_* */
    int64_t power_limit, power_default;  /* in milliwatts */
    int64_t mig, mig_pending;            /* 0 or 1 */
    int64_t compute_mode;                /* GF_COMPUTE_PROHIBITED: no program may use the GPU */
    int64_t generation, generation_most; /* current and highest generation of the PCIe link */
    /* Percentage of NVML's last sample period in which the GPU was busy. */
    int64_t busy;
    int64_t fabric; /* GF_FABRIC_*; 0: not supported; 3: ready */
};

/* Bits of nvmlClocksThrottleReason* that mean a problem. */
enum {
    gf_slow_hardware = 1 << 3,
    gf_slow_thermal = 1 << 5,
    gf_slow_hardware_thermal = 1 << 6,
    gf_slow_power_brake = 1 << 7,
};

/*
 * Reads the state of all GPUs, and returns the number of GPUs; later calls return the same list.
 * Returns 0 for a recorded machine, or if NVML is missing. Loads libnvidia-ml.so.1. Only one thread
 * may call this function.
 */
size_t gf_gpu_state_read(const struct gf_check_input *input, const struct gf_gpu_state **ret);

#endif
