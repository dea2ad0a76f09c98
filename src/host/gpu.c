/* SPDX-License-Identifier: Apache-2.0 */
#include "host/gpu.h"

#include "abi/cuda.h"
#include "base/atomic.h"
#include "base/cpus.h"
#include "base/fmt.h"
#include "os/own_table.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/prctl.h>

/*
 * Reads the node of a GPU from NVML, which knows it even if firmware reports no node to the kernel.
 * NVML is used only if the process has already loaded it, because loading it would change the
 * program's behaviour.
 */

struct gf_nvml {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*memory_affinity)(void *device, unsigned words, unsigned long *ret_nodes, unsigned scope);
};

#define NODE_WORDS (GF_NODES_MAX / 64)
enum { scope_node = 0 }; /* NVML_AFFINITY_SCOPE_NODE */

static bool find_functions(struct gf_nvml *nvml)
{
    *(void **)&nvml->init = dlsym(nvml->handle, "nvmlInit_v2");
    *(void **)&nvml->shutdown = dlsym(nvml->handle, "nvmlShutdown");
    *(void **)&nvml->by_bus_id = dlsym(nvml->handle, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->memory_affinity = dlsym(nvml->handle, "nvmlDeviceGetMemoryAffinity");
    return nvml->init && nvml->shutdown && nvml->by_bus_id && nvml->memory_affinity;
}

/*
 * Returns false if the process has not loaded NVML, or if NVML fails. Takes the loader's lock, so no
 * hook may call this function.
 */
static bool open_nvml(struct gf_nvml *ret)
{
    ret->handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!ret->handle)
        return false;
    /*
     * NVML counts its calls of init and shutdown, so these calls do not disturb the program's own
     * use of NVML.
     */
    if (find_functions(ret) && ret->init() == 0)
        return true;
    dlclose(ret->handle);
    return false;
}

/* Returns the node of the GPU with this PCI address; -1 if NVML does not know it. */
static int read_nvml_node(const struct gf_nvml *nvml, const char *bdf)
{
    struct gf_nodes nodes = {0};
    unsigned long words[NODE_WORDS] = {0};
    void *device;

    if (nvml->by_bus_id(bdf, &device) != 0 ||
        nvml->memory_affinity(device, NODE_WORDS, words, scope_node) != 0)
        return -1;
    memcpy(nodes.word, words, sizeof(words));
    return gf_set_next(&nodes, 0);
}

#define DEVICES_MAX 64
#define BDF_SIZE sizeof(((struct gf_gpu *)0)->bdf)

static int nvml_nodes[DEVICES_MAX]; /* the node of each GPU, by the driver's ordinal */
static size_t nvml_count;

/* Returns the value of an attribute; -1 if the driver does not know it. */
static int attribute(const struct gf_cuda *cuda, CUdevice_attribute which, CUdevice device)
{
    int value = -1;
    if (!cuda->cuDeviceGetAttribute ||
        cuda->cuDeviceGetAttribute(&value, which, device) != CUDA_SUCCESS)
        return -1;
    return value;
}

/* Reads the PCI address in lower case; "" if the driver does not report it. */
static void read_bdf(const struct gf_cuda *cuda, int device, char ret[BDF_SIZE])
{
    if (!cuda->cuDeviceGetPCIBusId ||
        cuda->cuDeviceGetPCIBusId(ret, (int)BDF_SIZE, device) != CUDA_SUCCESS)
        ret[0] = '\0';
    for (char *p = ret; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

void gf_gpu_ask_nvml(const struct gf_cuda *cuda)
{
    struct gf_nvml nvml;
    char bdf[BDF_SIZE];
    int count = 0;

    if (!cuda->cuDeviceGetCount || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        !open_nvml(&nvml))
        return;
    nvml_count = (size_t)gf_min(count, DEVICES_MAX);
    for (size_t device = 0; device < nvml_count; device++) {
        read_bdf(cuda, (int)device, bdf);
        nvml_nodes[device] = *bdf ? read_nvml_node(&nvml, bdf) : -1;
    }
    nvml.shutdown();
    dlclose(nvml.handle);
}

void gf_gpu_read(const struct gf_cuda *cuda, int device, bool ask_node, struct gf_gpu *ret)
{
    *ret = (struct gf_gpu){.device = device, .attr_node = -1, .nvml_node = -1};
    if (!cuda->cuDeviceGetName ||
        cuda->cuDeviceGetName(ret->name, sizeof(ret->name), device) != CUDA_SUCCESS)
        gf_fmt(ret->name, sizeof(ret->name), "unknown");
    read_bdf(cuda, device, ret->bdf);
    ret->mps = attribute(cuda, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) > 0;
    if (!ask_node)
        return;
    ret->attr_node = attribute(cuda, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
    if (device >= 0 && (size_t)device < nvml_count)
        ret->nvml_node = nvml_nodes[device];
}

#define DEVICES 16u
enum { clock_sm = 1 }; /* NVML_CLOCK_SM */

static struct {
    _Atomic bool found;
    int (*by_bus_id)(const char *bus_id, void **ret_device);
    int (*clock)(void *device, int type, unsigned *ret_mhz);
    char bdf[DEVICES][BDF_SIZE];
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
static bool find_clock_functions(void)
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

void gf_gpu_clock_find(const struct gf_cuda *cuda)
{
    if (gf_load_relaxed(&nvml.found) || !find_clock_functions())
        return;
    for (unsigned i = 0; i < DEVICES; i++)
        read_bdf(cuda, (int)i, nvml.bdf[i]);
    gf_store_release(&nvml.found, gf_detached_start(read_clocks, NULL) == 0);
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
