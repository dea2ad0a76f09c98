/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak definition of every entry: what no other file here implements exists and answers
 * CUDA_ERROR_NOT_SUPPORTED, as an old driver's stub would. No cuda.h: its prototypes differ.
 */
#define SIM_ENTRY(exported, name, version, flavour)                                                \
    __attribute__((weak, visibility("default"))) int exported(void);                               \
    __attribute__((weak, visibility("default"))) int exported(void)                                \
    {                                                                                              \
        return 801;                                                                                \
    }
#include "entries.def"
