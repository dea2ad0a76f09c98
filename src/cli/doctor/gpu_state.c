/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/gpu_state.h"

#include <dlfcn.h>
#include <stdio.h>

#define MEMORY_UNCORRECTED 1 /* NVML_MEMORY_ERROR_TYPE_UNCORRECTED */
#define COUNTER_VOLATILE 0   /* NVML_VOLATILE_ECC */

struct pci_info { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct fabric_info { /* nvmlGpuFabricInfo_t */
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

struct utilization { /* nvmlUtilization_t */
    unsigned gpu, memory;
};

/* Calls an NVML function if the library exports it. The value is true if the call succeeded. */
#define CALL(library, name, types, ...)                                                            \
    ({                                                                                             \
        int(*function) types = NULL;                                                               \
        *(void **)&function = dlsym(library, name);                                                \
        function &&function(__VA_ARGS__) == 0;                                                     \
    })

static int64_t read_unsigned(void *library, void *device, const char *name)
{
    unsigned value = 0;
    return CALL(library, name, (void *, unsigned *), device, &value) ? (int64_t)value : -1;
}

static void read_pair(void *library, void *device, const char *name, int64_t *ret_first,
                      int64_t *ret_second)
{
    unsigned first = 0, second = 0;
    const bool read =
        CALL(library, name, (void *, unsigned *, unsigned *), device, &first, &second);
    *ret_first = read ? (int64_t)first : -1;
    *ret_second = read ? (int64_t)second : -1;
}

static void read_memory_errors(void *library, void *device, struct gf_gpu_state *ret)
{
    unsigned long long errors = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;

    ret->ecc_errors =
        CALL(library, "nvmlDeviceGetTotalEccErrors", (void *, int, int, unsigned long long *),
             device, MEMORY_UNCORRECTED, COUNTER_VOLATILE, &errors)
            ? (int64_t)errors
            : -1;
    const bool read = CALL(library, "nvmlDeviceGetRemappedRows",
                           (void *, unsigned *, unsigned *, unsigned *, unsigned *), device,
                           &corrected, &uncorrected, &pending, &failed);
    ret->remap_pending = read ? (int64_t)pending : -1;
    ret->remap_failed = read ? (int64_t)failed : -1;
}

static void read_activity(void *library, void *device, struct gf_gpu_state *ret)
{
    unsigned long long reasons = 0;
    struct utilization busy = {0};
    struct fabric_info fabric = {0};

    ret->slow_reasons = CALL(library, "nvmlDeviceGetCurrentClocksThrottleReasons",
                             (void *, unsigned long long *), device, &reasons)
                            ? (int64_t)reasons
                            : -1;
    ret->busy = CALL(library, "nvmlDeviceGetUtilizationRates", (void *, struct utilization *),
                     device, &busy)
                    ? (int64_t)busy.gpu
                    : -1;
    ret->fabric =
        CALL(library, "nvmlDeviceGetGpuFabricInfo", (void *, struct fabric_info *), device, &fabric)
            ? (int64_t)fabric.state
            : -1;
}

static bool read_gpu(void *library, unsigned index, struct gf_gpu_state *ret)
{
    struct pci_info pci = {0};
    void *device;

    if (!CALL(library, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **), index, &device) ||
        !CALL(library, "nvmlDeviceGetPciInfo_v3", (void *, struct pci_info *), device, &pci))
        return false;
    snprintf(ret->bdf, sizeof(ret->bdf), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
             pci.device & 0x1f);
    ret->persistence = read_unsigned(library, device, "nvmlDeviceGetPersistenceMode");
    ret->power_limit = read_unsigned(library, device, "nvmlDeviceGetEnforcedPowerLimit");
    ret->power_default = read_unsigned(library, device, "nvmlDeviceGetPowerManagementDefaultLimit");
    ret->compute_mode = read_unsigned(library, device, "nvmlDeviceGetComputeMode");
    ret->generation = read_unsigned(library, device, "nvmlDeviceGetCurrPcieLinkGeneration");
    ret->generation_most = read_unsigned(library, device, "nvmlDeviceGetMaxPcieLinkGeneration");
    read_pair(library, device, "nvmlDeviceGetEccMode", &ret->ecc, &ret->ecc_pending);
    read_pair(library, device, "nvmlDeviceGetMigMode", &ret->mig, &ret->mig_pending);
    read_memory_errors(library, device, ret);
    read_activity(library, device, ret);
    return true;
}

size_t gf_gpu_state_read(const struct gf_check_input *input, const struct gf_gpu_state **ret)
{
    static struct gf_gpu_state states[GF_VISIBLE_GPUS_MAX];
    static size_t count;
    static bool done;
    unsigned present = 0;

    *ret = states;
    if (done || gf_check_is_recorded(input))
        return count;
    done = true;
    /* NVML stays loaded, because the command exits soon. */
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library || !CALL(library, "nvmlInit_v2", (void)))
        return 0;
    if (CALL(library, "nvmlDeviceGetCount_v2", (unsigned *), &present))
        for (unsigned i = 0; i < present && count < GF_ARRAY_LEN(states); i++)
            count += read_gpu(library, i, &states[count]);
    (void)CALL(library, "nvmlShutdown", (void));
    return count;
}
