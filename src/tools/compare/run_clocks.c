/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/run_clocks.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#define GPUS_MAX 64
#define PERIOD_NS 500000000L
#define CLOCK_SM 1        /* NVML_CLOCK_SM */
#define TEMPERATURE_GPU 0 /* NVML_TEMPERATURE_GPU */
/* nvmlClocksThrottleReason*: power cap, hardware slowdown, thermal, hardware thermal, power brake */
#define LIMITED (1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7)

struct utilization { /* nvmlUtilization_t */
    unsigned gpu, memory;
};

static struct {
    void *library;
    int (*device)(unsigned index, void **ret);
    int (*utilization)(void *device, struct utilization *ret);
    int (*clock)(void *device, int type, unsigned *ret);
    int (*temperature)(void *device, int sensor, unsigned *ret);
    int (*reasons)(void *device, unsigned long long *ret);
    unsigned count;
} nvml;

static struct {
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;                /* protected by the lock */
    struct gf_gpu_clock sums; /* only the thread uses this, until it has ended */
} reader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Loads NVML once, and keeps it loaded until the command exits. */
static bool open_nvml(void)
{
    static bool tried;
    int (*init)(void), (*count)(unsigned *);

    if (tried)
        return nvml.count;
    tried = true;
    nvml.library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!nvml.library)
        return false;
    *(void **)&init = dlsym(nvml.library, "nvmlInit_v2");
    *(void **)&count = dlsym(nvml.library, "nvmlDeviceGetCount_v2");
    *(void **)&nvml.device = dlsym(nvml.library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&nvml.utilization = dlsym(nvml.library, "nvmlDeviceGetUtilizationRates");
    *(void **)&nvml.clock = dlsym(nvml.library, "nvmlDeviceGetClockInfo");
    *(void **)&nvml.temperature = dlsym(nvml.library, "nvmlDeviceGetTemperature");
    *(void **)&nvml.reasons = dlsym(nvml.library, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!init || !count || !nvml.device || !nvml.utilization || !nvml.clock || !nvml.temperature ||
        !nvml.reasons || init() != 0 || count(&nvml.count) != 0)
        nvml.count = 0;
    nvml.count = gf_min(nvml.count, (unsigned)GPUS_MAX);
    return nvml.count;
}

static void read_gpu(unsigned index, struct gf_gpu_clock *sums)
{
    struct utilization busy = {0};
    unsigned mhz = 0, celsius = 0;
    unsigned long long reasons = 0;
    void *device;

    if (nvml.device(index, &device) != 0 || nvml.utilization(device, &busy) != 0 || !busy.gpu ||
        nvml.clock(device, CLOCK_SM, &mhz) != 0)
        return;
    sums->readings++;
    sums->mhz += mhz;
    if (nvml.temperature(device, TEMPERATURE_GPU, &celsius) == 0)
        sums->celsius = gf_max(sums->celsius, celsius);
    if (nvml.reasons(device, &reasons) == 0 && (reasons & LIMITED))
        sums->limited++;
}

/* Waits for the next reading. Returns false if gf_gpu_clock_end was called. */
static bool wait_period(void)
{
    const struct timespec until = gf_timespec(gf_clock_ns(CLOCK_REALTIME) + PERIOD_NS);
    int error = 0;

    pthread_mutex_lock(&reader.lock);
    while (!reader.ends && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&reader.changed, &reader.lock, &until);
    const bool ends = reader.ends;
    pthread_mutex_unlock(&reader.lock);
    return !ends;
}

static void *read_gpus(void *unused)
{
    while (wait_period())
        for (unsigned i = 0; i < nvml.count; i++)
            read_gpu(i, &reader.sums);
    return unused;
}

void gf_gpu_clock_begin(void)
{
    reader.sums = (struct gf_gpu_clock){0};
    reader.ends = false;
    reader.runs = open_nvml() && pthread_create(&reader.thread, NULL, read_gpus, NULL) == 0;
}

void gf_gpu_clock_end(struct gf_gpu_clock *add)
{
    if (!reader.runs)
        return;
    pthread_mutex_lock(&reader.lock);
    reader.ends = true;
    pthread_cond_signal(&reader.changed);
    pthread_mutex_unlock(&reader.lock);
    pthread_join(reader.thread, NULL);
    reader.runs = false;
    gf_gpu_clock_add(add, &reader.sums);
}

void gf_gpu_clock_add(struct gf_gpu_clock *clock, const struct gf_gpu_clock *more)
{
    clock->readings += more->readings;
    clock->mhz += more->mhz;
    clock->celsius = gf_max(clock->celsius, more->celsius);
    clock->limited += more->limited;
}
