/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/gpu_clock.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "engine/machine/gpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICES 16u
enum { clock_sm = 1 }; /* NVML_CLOCK_SM */

static struct {
    _Atomic bool found;
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*clock)(void *device, int type, unsigned *ret_mhz);
    char bdf[DEVICES][sizeof(((struct gf_gpu *)0)->bdf)];
} nvml;

/*
 * The clocks are read by a thread, because a call of NVML may wait for the driver, and the sampler
 * must not. The thread shares the program's descriptor table: NVML keeps the numbers of the
 * descriptors that it opened in that table for the program, so in another table (os/own_table.h) it
 * would use wrong files. A look-up may open the file of a GPU that the program itself has not
 * looked up. NVML closes it when the program shuts NVML down.
 */
static struct {
    _Atomic unsigned requests; /* a futex; counts requests */
    _Atomic bool wanted[DEVICES];
    _Atomic unsigned loss[DEVICES]; /* as of the last reading */
} reader;

struct search {
    uint64_t adds; /* how many objects were ever loaded */
    char path[256];
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct search *search = closure;
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;

    search->adds = info->dlpi_adds;
    if (name && strcmp(name, "/libnvidia-ml.so.1") == 0)
        gf_fmt(search->path, sizeof(search->path), "%s", info->dlpi_name);
    return *search->path;
}

/*
 * Whether the program has loaded NVML since the last call. dlopen with RTLD_NOLOAD would open files
 * in the program's descriptor table to find that out.
 */
static bool find_library(struct search *ret)
{
    static uint64_t adds;

    *ret = (struct search){.adds = 0};
    dl_iterate_phdr(visit_object, ret);
    const bool is_new = ret->adds != adds;
    adds = ret->adds;
    return is_new && *ret->path;
}

/* The handle is kept, so that NVML stays loaded. */
static bool find_functions(void)
{
    struct search search;
    void *handle =
        find_library(&search) ? dlopen(search.path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) : NULL;

    if (!handle)
        return false;
    *(void **)&nvml.by_bus_id = dlsym(handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml.clock = dlsym(handle, "nvmlDeviceGetClockInfo");
    return nvml.by_bus_id && nvml.clock;
}

/*
 * The handle is looked up each time, because it is not valid after the program has shut NVML down.
 * Then the look-up fails.
 */
static unsigned read_clock(unsigned device)
{
    unsigned mhz = 0;
    void *handle;

    if (!*nvml.bdf[device] || nvml.by_bus_id(nvml.bdf[device], &handle) != 0 ||
        nvml.clock(handle, clock_sm, &mhz) != 0)
        return 0;
    return mhz;
}

static void update_loss(unsigned device)
{
    static unsigned most_mhz[DEVICES];
    const unsigned mhz = read_clock(device);
    unsigned *most = &most_mhz[device];

    *most = gf_max(*most, mhz);
    gf_store_relaxed(&reader.loss[device], mhz ? (*most - mhz) * 1000 / *most : 0);
}

static void *read_clocks(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-clock");
    for (unsigned seen = 0;; seen = gf_load_acquire(&reader.requests)) {
        for (unsigned i = 0; i < DEVICES; i++)
            if (gf_exchange_relaxed(&reader.wanted[i], false))
                update_loss(i);
        syscall(SYS_futex, &reader.requests, FUTEX_WAIT_PRIVATE, seen, NULL);
    }
    return unused;
}

static bool start_thread(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&thread, &attr, read_clocks, NULL) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

void gf_gpu_clock_find(const struct gf_cuda *cuda)
{
    struct gf_gpu gpu;

    if (gf_load_relaxed(&nvml.found) || !find_functions())
        return;
    for (unsigned i = 0; i < DEVICES; i++) {
        gf_gpu_read(cuda, (int)i, false, &gpu);
        memcpy(nvml.bdf[i], gpu.bdf, sizeof(gpu.bdf));
    }
    gf_store_release(&nvml.found, start_thread());
}

unsigned gf_gpu_clock_loss(unsigned device)
{
    if (device >= DEVICES || !gf_load_acquire(&nvml.found))
        return 0;
    gf_store_relaxed(&reader.wanted[device], true);
    gf_add_release(&reader.requests, 1);
    syscall(SYS_futex, &reader.requests, FUTEX_WAKE_PRIVATE, INT_MAX);
    return gf_load_relaxed(&reader.loss[device]);
}
