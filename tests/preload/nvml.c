/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake libnvidia-ml.so.1 with FAKE_GPUS healthy GPUs (default: 1). FAKE_NVML="name=value ..."
 * changes values of GPU number FAKE_GPU, or of all GPUs if FAKE_GPU is not set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

struct fabric_info {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

static unsigned number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static unsigned value(void *device, const char *name, unsigned otherwise)
{
    const char *at = getenv("FAKE_NVML");
    const size_t length = strlen(name), index = (size_t)device - 1;

    if (!at || index != number("FAKE_GPU", (unsigned)index))
        return otherwise;
    for (; (at = strstr(at, name)); at += length)
        if (at[length] == '=')
            return (unsigned)strtoul(at + length + 1, NULL, 0);
    return otherwise;
}

int nvmlInit_v2(void)
{
    return (int)number("FAKE_INIT", 0);
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = number("FAKE_GPUS", 1);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    *ret = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *ret)
{
    *ret = (struct pci_info){.bus = 0x10 + (unsigned)(size_t)device};
    return 0;
}

#define UNSIGNED(function, name, otherwise)                                                        \
    int function(void *device, unsigned *ret)                                                      \
    {                                                                                              \
        *ret = value(device, name, otherwise);                                                     \
        return 0;                                                                                  \
    }
UNSIGNED(nvmlDeviceGetPersistenceMode, "persistence", 1)
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, "limit", 700000)
UNSIGNED(nvmlDeviceGetPowerManagementDefaultLimit, "default", 700000)
UNSIGNED(nvmlDeviceGetComputeMode, "compute", 0)
UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration, "generation", 5)
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration, "most", 5)

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *ret)
{
    *ret = sensor == 0 ? value(device, "celsius", 55) : 999;
    return 0;
}

/* FAKE_CLOCK names a file that contains the clock, so that a test can change the clock. */
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *ret)
{
    FILE *file = getenv("FAKE_CLOCK") ? fopen(getenv("FAKE_CLOCK"), "r") : NULL;

    (void)device;
    if (type != 1 || !file || fscanf(file, "%u", ret) != 1)
        *ret = 1980;
    if (file)
        fclose(file);
    return 0;
}

int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *later)
{
    *now = *later = value(device, "ecc", 1);
    return 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later)
{
    *now = value(device, "mig", 0);
    *later = value(device, "later", 0);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *ret)
{
    *ret = type == 1 && counter == 0 ? value(device, "errors", 0) : 99;
    return 0;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = 0;
    *pending = value(device, "pending", 0);
    *failed = value(device, "failed", 0);
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *ret)
{
    *ret = value(device, "reasons", 1);
    return 0;
}

/* FAKE_READS names a file that grows by a byte with each call. */
int nvmlDeviceGetUtilizationRates(void *device, unsigned *ret)
{
    FILE *reads = getenv("FAKE_READS") ? fopen(getenv("FAKE_READS"), "a") : NULL;

    if (reads) {
        fputc('.', reads);
        fclose(reads);
    }
    ret[0] = value(device, "busy", 50);
    ret[1] = 0;
    return 0;
}

int nvmlDeviceGetGpuFabricInfo(void *device, struct fabric_info *ret)
{
    *ret = (struct fabric_info){.state = (unsigned char)value(device, "fabric", 3)};
    return 0;
}
