/* SPDX-License-Identifier: Apache-2.0 */
/* Calls NVML, which the command loads only where it needs it. */
#pragma once

#include "base/base.h"

#include <dlfcn.h>

/* Calls an NVML function if the library exports it. The value is true if the call succeeded. */
#define GF_NVML_CALL(library, name, types, ...)                                                    \
    ({                                                                                             \
        int(*function) types = NULL;                                                               \
        *(void **)&function = dlsym(library, name);                                                \
        function &&function(__VA_ARGS__) == 0;                                                     \
    })

struct gf_nvml_utilization { /* nvmlUtilization_t */
    unsigned gpu, memory;
};

/*
 * Loads and initializes libnvidia-ml.so.1. It stays loaded until the command exits. Returns NULL if
 * that fails. Sets *ret_count to the number of GPUs, or 0.
 */
static inline void *gf_nvml_load(unsigned *ret_count)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);

    *ret_count = 0;
    if (!library || !GF_NVML_CALL(library, "nvmlInit_v2", (void)))
        return NULL;
    if (!GF_NVML_CALL(library, "nvmlDeviceGetCount_v2", (unsigned *), ret_count))
        *ret_count = 0;
    return library;
}
