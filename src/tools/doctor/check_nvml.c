/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML reports. */
#include "tools/common/nvml.h"
#include "tools/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    GF_FABRIC_NOT_STARTED = 1,
    GF_FABRIC_IN_PROGRESS = 2,
    GF_COMPUTE_PROHIBITED = 2,
};

/* The state of each GPU, as NVML reports it. A value is -1 if NVML does not report it. */
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

static int64_t read_unsigned(void *library, void *device, const char *name)
{
    unsigned value = 0;
    return GF_NVML_CALL(library, name, (void *, unsigned *), device, &value) ? (int64_t)value : -1;
}

static void read_pair(void *library, void *device, const char *name, int64_t *ret_first,
                      int64_t *ret_second)
{
    unsigned first = 0, second = 0;
    const bool read =
        GF_NVML_CALL(library, name, (void *, unsigned *, unsigned *), device, &first, &second);
    *ret_first = read ? (int64_t)first : -1;
    *ret_second = read ? (int64_t)second : -1;
}

static void read_memory_errors(void *library, void *device, struct gf_gpu_state *ret)
{
    unsigned long long errors = 0;
    unsigned corrected, uncorrected, pending = 0, failed = 0;

    ret->ecc_errors = GF_NVML_CALL(library, "nvmlDeviceGetTotalEccErrors",
                                   (void *, int, int, unsigned long long *), device,
                                   MEMORY_UNCORRECTED, COUNTER_VOLATILE, &errors)
                          ? (int64_t)errors
                          : -1;
    const bool read = GF_NVML_CALL(library, "nvmlDeviceGetRemappedRows",
                                   (void *, unsigned *, unsigned *, unsigned *, unsigned *), device,
                                   &corrected, &uncorrected, &pending, &failed);
    ret->remap_pending = read ? (int64_t)pending : -1;
    ret->remap_failed = read ? (int64_t)failed : -1;
}

static void read_activity(void *library, void *device, struct gf_gpu_state *ret)
{
    unsigned long long reasons = 0;
    struct gf_nvml_utilization busy = {0};
    struct fabric_info fabric = {0};

    ret->slow_reasons = GF_NVML_CALL(library, "nvmlDeviceGetCurrentClocksThrottleReasons",
                                     (void *, unsigned long long *), device, &reasons)
                            ? (int64_t)reasons
                            : -1;
    ret->busy = GF_NVML_CALL(library, "nvmlDeviceGetUtilizationRates",
                             (void *, struct gf_nvml_utilization *), device, &busy)
                    ? (int64_t)busy.gpu
                    : -1;
    ret->fabric = GF_NVML_CALL(library, "nvmlDeviceGetGpuFabricInfo",
                               (void *, struct fabric_info *), device, &fabric)
                      ? (int64_t)fabric.state
                      : -1;
}

static bool read_gpu(void *library, unsigned index, struct gf_gpu_state *ret)
{
    struct pci_info pci = {0};
    void *device;

    if (!GF_NVML_CALL(library, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **), index,
                      &device) ||
        !GF_NVML_CALL(library, "nvmlDeviceGetPciInfo_v3", (void *, struct pci_info *), device,
                      &pci))
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

/*
 * Reads the state of all GPUs, and returns the number of GPUs; later calls return the same list.
 * Returns 0 for a recorded machine, or if NVML is missing. Loads libnvidia-ml.so.1. Only one thread
 * may call this function.
 */
static size_t gf_gpu_state_read(const struct gf_check_input *input, const struct gf_gpu_state **ret)
{
    static struct gf_gpu_state states[GF_VISIBLE_GPUS_MAX];
    static size_t count;
    static bool done;
    unsigned present = 0;

    *ret = states;
    if (done || gf_check_is_recorded(input))
        return count;
    done = true;
    void *library = gf_nvml_load(&present);
    for (unsigned i = 0; i < present && count < GF_ARRAY_LEN(states); i++)
        count += read_gpu(library, i, &states[count]);
    if (library)
        (void)GF_NVML_CALL(library, "nvmlShutdown", (void));
    return count;
}

/* What may be wrong with a GPU. */
struct trouble {
    bool is_so;
    const char *problem, *fix;
};

/* Reports the first trouble, or that all is well. Returns true for a trouble, whose evidence the caller adds. */
static bool has_trouble(const struct gf_gpu_state *gpu, const struct trouble *troubles,
                        size_t count, const char *ok, struct gf_findings *ret)
{
    for (size_t i = 0; i < count; i++)
        if (troubles[i].is_so) {
            gf_gpu_problem(ret, gpu->bdf, "%s", troubles[i].problem);
            gf_fix(ret, "%s", troubles[i].fix);
            return true;
        }
    gf_gpu_ok(ret, gpu->bdf, "%s", ok);
    return false;
}

/* Defines the function of checks.def. NVML may not report a state; then there is no finding. */
#define CHECK(token)                                                                               \
    void gf_check_##token(const struct gf_check_input *input, struct gf_findings *ret)             \
    {                                                                                              \
        const struct gf_gpu_state *gpus;                                                           \
        const size_t count = gf_gpu_state_read(input, &gpus);                                      \
        for (size_t i = 0; i < count; i++)                                                         \
            judge_##token(&gpus[i], ret);                                                          \
    }

static void judge_persistence(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {{!gpu->persistence, "persistence mode is off", ""}};

    if (gpu->persistence < 0 || !has_trouble(gpu, troubles, 1, "persistence mode is on", ret))
        return;
    gf_evidence(ret, "nvmlDeviceGetPersistenceMode: 0");
    gf_command(ret, "nvidia-smi -pm 1");
}

CHECK(persistence)

static void judge_gpu_memory(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {
        {gpu->remap_failed > 0, "remapping a row of memory failed", "replace the GPU"},
        {gpu->remap_pending > 0, "a row of memory will be remapped at the next reset",
         "reset the GPU when no program uses it: nvidia-smi -r -i GPU"},
        {gpu->ecc_errors > 0, "memory has uncorrected errors",
         "reset the GPU: nvidia-smi -r -i GPU; replace it if the errors recur"},
        {gpu->ecc == 0, "ECC is off: memory errors change results",
         "nvidia-smi -e 1, then reset the GPU"},
    };

    if (gpu->ecc < 0 && gpu->remap_failed < 0)
        return;
    if (has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "memory has no errors", ret))
        gf_evidence(ret,
                    "NVML: ECC %ld (after a reset: %ld); uncorrected errors: %ld; remapping "
                    "pending: %ld, failed: %ld (-1: unknown)",
                    gpu->ecc, gpu->ecc_pending, gpu->ecc_errors, gpu->remap_pending,
                    gpu->remap_failed);
}

CHECK(gpu_memory)

static void judge_gpu_clocks(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {
        {gpu->slow_reasons & (gf_slow_thermal | gf_slow_hardware_thermal),
         "the GPU has lowered its clock because of heat",
         "check fans, airflow and inlet temperature"},
        {gpu->slow_reasons & (gf_slow_power_brake | gf_slow_hardware),
         "the power supply has forced a lower clock",
         "check the power supplies and the power limit of the rack"},
    };

    if (gpu->slow_reasons >= 0 &&
        has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "the clock is not lowered", ret))
        gf_evidence(ret, "nvmlDeviceGetCurrentClocksThrottleReasons: 0x%lx", gpu->slow_reasons);
}

CHECK(gpu_clocks)

static void judge_power_limit(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {
        {gpu->power_limit < gpu->power_default, "the power limit is below the default", ""}};

    if (gpu->power_limit <= 0 || gpu->power_default <= 0 ||
        !has_trouble(gpu, troubles, 1, "the power limit is the default or more", ret))
        return;
    gf_evidence(ret, "NVML: limit %ld W, default %ld W", gpu->power_limit / 1000,
                gpu->power_default / 1000);
    gf_fix(ret, "unless it was lowered on purpose: nvidia-smi -pl %ld -i GPU",
           gpu->power_default / 1000);
}

CHECK(power_limit)

static void judge_gpu_modes(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {
        {gpu->compute_mode == GF_COMPUTE_PROHIBITED, "the compute mode prohibits all programs",
         "nvidia-smi -c 0"},
        {gpu->mig >= 0 && gpu->mig != gpu->mig_pending,
         "the MIG mode will change at the next reset",
         "reset the GPU when no program uses it: nvidia-smi -r -i GPU"},
    };

    if (gpu->mig < 0 && gpu->compute_mode < 0)
        return;
    if (has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles),
                    "programs may use the GPU, and no change of the MIG mode is pending", ret))
        gf_evidence(ret, "NVML: MIG %ld (after a reset: %ld), compute mode %ld (-1: unknown)",
                    gpu->mig, gpu->mig_pending, gpu->compute_mode);
}

CHECK(gpu_modes)

/* Judges only a busy GPU, because an idle GPU lowers the generation of its link. */
static void judge_link_generation(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    const struct trouble troubles[] = {
        {gpu->generation < gpu->generation_most,
         "the PCIe link does not use its fastest generation, although the GPU is busy",
         "reseat the card or its riser; set the slot's generation in the firmware"}};

    if (gpu->generation > 0 && gpu->generation_most > 0 && gpu->busy > 0 &&
        has_trouble(gpu, troubles, 1, "the PCIe link uses its fastest generation", ret))
        gf_evidence(ret, "NVML: generation %ld of %ld, GPU busy %ld %%", gpu->generation,
                    gpu->generation_most, gpu->busy);
}

CHECK(link_generation)

static void judge_fabric(const struct gf_gpu_state *gpu, struct gf_findings *ret)
{
    static const char problem[] = "NVLink's fabric is not ready";
    const struct trouble troubles[] = {
        {gpu->fabric == GF_FABRIC_IN_PROGRESS, problem,
         "wait; if the state stays, read journalctl -u nvidia-fabricmanager"},
        /* The restart ends programs that use CUDA. */
        {gpu->fabric == GF_FABRIC_NOT_STARTED, problem,
         "when no program uses a GPU: systemctl restart nvidia-fabricmanager"},
    };

    if (gpu->fabric > 0 &&
        has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "NVLink's fabric is ready", ret))
        gf_evidence(ret, "nvmlDeviceGetGpuFabricInfo: state %ld", gpu->fabric);
}

CHECK(fabric)
