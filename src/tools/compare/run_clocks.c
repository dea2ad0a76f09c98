/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/run_clocks.h"
#include "base/clock.h"
#include "tools/common/nvml.h"

#include <pthread.h>
#include <time.h>

#define GPUS_MAX 64
#define PERIOD_NS 500000000L
#define CLOCK_SM 1        /* NVML_CLOCK_SM */
#define TEMPERATURE_GPU 0 /* NVML_TEMPERATURE_GPU */
/* nvmlClocksThrottleReason*: power cap, hardware slowdown, thermal, hardware thermal, power brake */
#define LIMITED (1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7)

static struct {
    void *library;
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

/* Loads NVML once. */
static bool open_nvml(void)
{
    static bool tried;

    if (!tried)
        nvml.library = gf_nvml_load(&nvml.count);
    tried = true;
    nvml.count = gf_min(nvml.count, (unsigned)GPUS_MAX);
    return nvml.count;
}

static void read_gpu(void *library, unsigned index, struct gf_gpu_clock *sums)
{
    struct gf_nvml_utilization busy = {0};
    unsigned mhz = 0, celsius = 0;
    unsigned long long reasons = 0;
    void *device;

    if (!GF_NVML_CALL(library, "nvmlDeviceGetHandleByIndex_v2", (unsigned, void **), index,
                      &device) ||
        !GF_NVML_CALL(library, "nvmlDeviceGetUtilizationRates",
                      (void *, struct gf_nvml_utilization *), device, &busy) ||
        !busy.gpu ||
        !GF_NVML_CALL(library, "nvmlDeviceGetClockInfo", (void *, int, unsigned *), device,
                      CLOCK_SM, &mhz))
        return;
    sums->readings++;
    sums->mhz += mhz;
    if (GF_NVML_CALL(library, "nvmlDeviceGetTemperature", (void *, int, unsigned *), device,
                     TEMPERATURE_GPU, &celsius))
        sums->celsius = gf_max(sums->celsius, celsius);
    if (GF_NVML_CALL(library, "nvmlDeviceGetCurrentClocksThrottleReasons",
                     (void *, unsigned long long *), device, &reasons) &&
        (reasons & LIMITED))
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
            read_gpu(nvml.library, i, &reader.sums);
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
