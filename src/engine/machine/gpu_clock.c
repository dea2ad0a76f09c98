/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/gpu_clock.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "engine/machine/gpu.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define DEVICES 16u
enum { clock_sm = 1 }; /* NVML_CLOCK_SM */

static struct {
    _Atomic bool found;
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*clock)(void *device, int type, unsigned *ret_mhz);
    char bdf[DEVICES][sizeof(((struct gf_gpu *)0)->bdf)];
    unsigned most_mhz[DEVICES];
} nvml;

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

void gf_gpu_clock_find(const struct gf_cuda *cuda)
{
    struct gf_gpu gpu;

    if (gf_load_relaxed(&nvml.found) || !find_functions())
        return;
    for (unsigned i = 0; i < DEVICES; i++) {
        gf_gpu_read(cuda, (int)i, false, &gpu);
        memcpy(nvml.bdf[i], gpu.bdf, sizeof(gpu.bdf));
    }
    gf_store_release(&nvml.found, true);
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

unsigned gf_gpu_clock_loss(unsigned device)
{
    if (device >= DEVICES || !gf_load_acquire(&nvml.found))
        return 0;
    const unsigned mhz = read_clock(device);
    unsigned *most = &nvml.most_mhz[device];
    *most = gf_max(*most, mhz);
    return mhz ? (*most - mhz) * 1000 / *most : 0;
}
