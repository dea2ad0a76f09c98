/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weak definitions of all functions of the driver. A function that no other file here defines
 * returns CUDA_ERROR_NOT_SUPPORTED, like a stub of an old driver. cuda.h is not included, because
 * its prototypes differ.
 */
#define SIM_ENTRY(exported, name, version, flavour)                                                \
    __attribute__((weak, visibility("default"))) int exported(void);                               \
    __attribute__((weak, visibility("default"))) int exported(void)                                \
    {                                                                                              \
        return 801;                                                                                \
    }
#include "entries.def"
