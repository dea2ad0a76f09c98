/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML reports. */
#include "tools/common/nvml.h"
#include "tools/doctor/finding.h"

enum {
    GF_FABRIC_NOT_STARTED = 1, /* 0: not supported; 3: ready */
    GF_FABRIC_IN_PROGRESS = 2,
    GF_COMPUTE_PROHIBITED = 2, /* no program may use the GPU */
};

/* A GPU of this machine. */
struct gpu {
    char bdf[20];
    void *library, *device;
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

/* Returns a number of the GPU; -1 if NVML does not report it. */
static int64_t read_number(const struct gpu *gpu, const char *name)
{
    unsigned value;
    return GF_NVML_CALL(gpu->library, name, (void *, unsigned *), gpu->device, &value)
               ? (int64_t)value
               : -1;
}

/* Reads a mode: 0 or 1 now, and after a reset. */
static void read_mode(const struct gpu *gpu, const char *name, int64_t *ret_now, int64_t *ret_later)
{
    unsigned now, later;
    const bool read = GF_NVML_CALL(gpu->library, name, (void *, unsigned *, unsigned *),
                                   gpu->device, &now, &later);
    *ret_now = read ? (int64_t)now : -1;
    *ret_later = read ? (int64_t)later : -1;
}

static bool find_gpu(void *library, unsigned index, struct gpu *ret)
{
    struct pci_info pci = {0};

    ret->library = library;
    if (!GF_NVML_CALL(library, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **), index,
                      &ret->device) ||
        !GF_NVML_CALL(library, "nvmlDeviceGetPciInfo_v3", (void *, struct pci_info *), ret->device,
                      &pci))
        return false;
    snprintf(ret->bdf, sizeof(ret->bdf), "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
             pci.device & 0x1f);
    return true;
}

/*
 * Finds all GPUs, and returns their number; later calls return the same list. Returns 0 for a
 * recorded machine, or if NVML is missing. Only one thread may call this function.
 */
static size_t find_gpus(const struct gf_check_input *input, const struct gpu **ret)
{
    static struct gpu gpus[GF_VISIBLE_GPUS_MAX];
    static size_t count;
    static bool done;
    unsigned present = 0;

    *ret = gpus;
    if (done || gf_check_is_recorded(input))
        return count;
    done = true;
    void *library = gf_nvml_load(&present);
    for (unsigned i = 0; i < present && count < GF_ARRAY_LEN(gpus); i++)
        count += find_gpu(library, i, &gpus[count]);
    return count;
}

/* What may be wrong with a GPU. */
struct trouble {
    bool is_so;
    const char *problem, *fix;
};

/* Reports the first trouble, or that all is well. Returns true for a trouble, whose evidence the caller adds. */
static bool has_trouble(const struct gpu *gpu, const struct trouble *troubles, size_t count,
                        const char *ok, struct gf_findings *ret)
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
        const struct gpu *gpus;                                                                    \
        const size_t count = find_gpus(input, &gpus);                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            judge_##token(&gpus[i], ret);                                                          \
    }

static void judge_persistence(const struct gpu *gpu, struct gf_findings *ret)
{
    const int64_t on = read_number(gpu, "nvmlDeviceGetPersistenceMode");
    const struct trouble troubles[] = {{!on, "persistence mode is off", ""}};

    if (on < 0 || !has_trouble(gpu, troubles, 1, "persistence mode is on", ret))
        return;
    gf_evidence(ret, "nvmlDeviceGetPersistenceMode: 0");
    gf_command(ret, "nvidia-smi -pm 1");
}

CHECK(persistence)

static void judge_gpu_memory(const struct gpu *gpu, struct gf_findings *ret)
{
    unsigned long long uncorrected;
    unsigned rows[4]; /* remapped after a corrected error, after another one; pending; failed */
    int64_t ecc, ecc_later;

    read_mode(gpu, "nvmlDeviceGetEccMode", &ecc, &ecc_later);
    const int64_t errors = GF_NVML_CALL(gpu->library, "nvmlDeviceGetTotalEccErrors",
                                        (void *, int, int, unsigned long long *), gpu->device,
                                        MEMORY_UNCORRECTED, COUNTER_VOLATILE, &uncorrected)
                               ? (int64_t)uncorrected
                               : -1;
    const bool has_rows = GF_NVML_CALL(gpu->library, "nvmlDeviceGetRemappedRows",
                                       (void *, unsigned *, unsigned *, unsigned *, unsigned *),
                                       gpu->device, &rows[0], &rows[1], &rows[2], &rows[3]);
    const int64_t pending = has_rows ? (int64_t)rows[2] : -1,
                  failed = has_rows ? (int64_t)rows[3] : -1;
    const struct trouble troubles[] = {
        {failed > 0, "remapping a row of memory failed", "replace the GPU"},
        {pending > 0, "a row of memory will be remapped at the next reset",
         "reset the GPU when no program uses it: nvidia-smi -r -i GPU"},
        {errors > 0, "memory has uncorrected errors",
         "reset the GPU: nvidia-smi -r -i GPU; replace it if the errors recur"},
        {ecc == 0, "ECC is off: memory errors change results",
         "nvidia-smi -e 1, then reset the GPU"},
    };

    if (ecc < 0 && failed < 0)
        return;
    if (has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "memory has no errors", ret))
        gf_evidence(ret,
                    "NVML: ECC %ld (after a reset: %ld); uncorrected errors: %ld; remapping "
                    "pending: %ld, failed: %ld (-1: unknown)",
                    ecc, ecc_later, errors, pending, failed);
}

CHECK(gpu_memory)

static void judge_gpu_clocks(const struct gpu *gpu, struct gf_findings *ret)
{
    unsigned long long reasons;

    if (!GF_NVML_CALL(gpu->library, "nvmlDeviceGetCurrentClocksThrottleReasons",
                      (void *, unsigned long long *), gpu->device, &reasons))
        return;
    const struct trouble troubles[] = {
        {reasons & (gf_slow_thermal | gf_slow_hardware_thermal),
         "the GPU has lowered its clock because of heat",
         "check fans, airflow and inlet temperature"},
        {reasons & (gf_slow_power_brake | gf_slow_hardware),
         "the power supply has forced a lower clock",
         "check the power supplies and the power limit of the rack"},
    };

    if (has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "the clock is not lowered", ret))
        gf_evidence(ret, "nvmlDeviceGetCurrentClocksThrottleReasons: 0x%llx", reasons);
}

CHECK(gpu_clocks)

static void judge_power_limit(const struct gpu *gpu, struct gf_findings *ret)
{
    const int64_t limit = read_number(gpu, "nvmlDeviceGetEnforcedPowerLimit"), /* in milliwatts */
        usual = read_number(gpu, "nvmlDeviceGetPowerManagementDefaultLimit");
    const struct trouble troubles[] = {{limit < usual, "the power limit is below the default", ""}};

    if (limit <= 0 || usual <= 0 ||
        !has_trouble(gpu, troubles, 1, "the power limit is the default or more", ret))
        return;
    gf_evidence(ret, "NVML: limit %ld W, default %ld W", limit / 1000, usual / 1000);
    gf_fix(ret, "unless it was lowered on purpose: nvidia-smi -pl %ld -i GPU", usual / 1000);
}

CHECK(power_limit)

static void judge_gpu_modes(const struct gpu *gpu, struct gf_findings *ret)
{
    const int64_t compute = read_number(gpu, "nvmlDeviceGetComputeMode");
    int64_t mig, mig_later;

    read_mode(gpu, "nvmlDeviceGetMigMode", &mig, &mig_later);
    const struct trouble troubles[] = {
        {compute == GF_COMPUTE_PROHIBITED, "the compute mode prohibits all programs",
         "nvidia-smi -c 0"},
        {mig >= 0 && mig != mig_later, "the MIG mode will change at the next reset",
         "reset the GPU when no program uses it: nvidia-smi -r -i GPU"},
    };

    if (mig < 0 && compute < 0)
        return;
    if (has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles),
                    "programs may use the GPU, and no change of the MIG mode is pending", ret))
        gf_evidence(ret, "NVML: MIG %ld (after a reset: %ld), compute mode %ld (-1: unknown)", mig,
                    mig_later, compute);
}

CHECK(gpu_modes)

/* Judges only a busy GPU, because an idle GPU lowers the generation of its link. */
static void judge_link_generation(const struct gpu *gpu, struct gf_findings *ret)
{
    struct gf_nvml_utilization busy = {0}; /* in percent of NVML's last sample period */
    const int64_t now = read_number(gpu, "nvmlDeviceGetCurrPcieLinkGeneration"),
                  most = read_number(gpu, "nvmlDeviceGetMaxPcieLinkGeneration");
    const struct trouble troubles[] = {
        {now < most, "the PCIe link does not use its fastest generation, although the GPU is busy",
         "reseat the card or its riser; set the slot's generation in the firmware"}};

    (void)GF_NVML_CALL(gpu->library, "nvmlDeviceGetUtilizationRates",
                       (void *, struct gf_nvml_utilization *), gpu->device, &busy);
    if (now > 0 && most > 0 && busy.gpu > 0 &&
        has_trouble(gpu, troubles, 1, "the PCIe link uses its fastest generation", ret))
        gf_evidence(ret, "NVML: generation %ld of %ld, GPU busy %u %%", now, most, busy.gpu);
}

CHECK(link_generation)

static void judge_fabric(const struct gpu *gpu, struct gf_findings *ret)
{
    static const char problem[] = "NVLink's fabric is not ready";
    struct fabric_info fabric = {0};

    (void)GF_NVML_CALL(gpu->library, "nvmlDeviceGetGpuFabricInfo", (void *, struct fabric_info *),
                       gpu->device, &fabric);
    const struct trouble troubles[] = {
        {fabric.state == GF_FABRIC_IN_PROGRESS, problem,
         "wait; if the state stays, read journalctl -u nvidia-fabricmanager"},
        /* The restart ends programs that use CUDA. */
        {fabric.state == GF_FABRIC_NOT_STARTED, problem,
         "when no program uses a GPU: systemctl restart nvidia-fabricmanager"},
    };

    if (fabric.state > 0 &&
        has_trouble(gpu, troubles, GF_ARRAY_LEN(troubles), "NVLink's fabric is ready", ret))
        gf_evidence(ret, "nvmlDeviceGetGpuFabricInfo: state %u", fabric.state);
}

CHECK(fabric)
