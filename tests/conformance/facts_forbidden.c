/* SPDX-License-Identifier: Apache-2.0 */
/* How each call affects a capture, by the capture's mode and by the calling thread. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUstream capturing, other;
static CUdeviceptr device, spare;
static CUevent event;
static CUgraph ready;
static void *host, *spare_host;
static char *registered, *pageable;

static CUresult mem_alloc(void)
{
    CUdeviceptr memory;
    CUresult result = cu.cuMemAlloc_v2(&memory, 4096);
    return result;
}

static CUresult mem_free(void)
{
    return cu.cuMemFree_v2(spare);
}

static CUresult mem_free_null(void)
{
    return cu.cuMemFree_v2(0);
}

static CUresult host_alloc(void)
{
    void *at;
    return cu.cuMemHostAlloc(&at, 4096, 0);
}

static CUresult host_free(void)
{
    return cu.cuMemFreeHost(spare_host);
}

static CUresult host_register(void)
{
    return cu.cuMemHostRegister_v2(pageable, 4096, 0);
}

static CUresult host_unregister(void)
{
    return cu.cuMemHostUnregister(registered);
}

static CUresult host_flags(void)
{
    unsigned flags;
    return cu.cuMemHostGetFlags(&flags, host);
}

static CUresult managed(void)
{
    CUdeviceptr memory;
    return cu.cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL);
}

static CUresult alloc_async(void)
{
    CUdeviceptr memory;
    return cu.cuMemAllocAsync(&memory, 4096, other);
}

static CUresult info(void)
{
    size_t size;
    return cu.cuMemGetInfo_v2(&size, NULL);
}

static CUresult attribute(void)
{
    unsigned type;
    return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host);
}

static CUresult event_query(void)
{
    return cu.cuEventQuery(event);
}

static CUresult event_synchronize(void)
{
    return cu.cuEventSynchronize(event);
}

static CUresult event_record(void)
{
    return cu.cuEventRecord(event, other);
}

static CUresult event_create(void)
{
    CUevent made;
    return cu.cuEventCreate(&made, 0);
}

static CUresult event_destroy(void)
{
    CUresult result = cu.cuEventDestroy_v2(event);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    cu.cuEventCreate(&event, 0);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult stream_query(void)
{
    return cu.cuStreamQuery(other);
}

static CUresult stream_synchronize(void)
{
    return cu.cuStreamSynchronize(other);
}

static CUresult context_synchronize(void)
{
    return cu.cuCtxSynchronize();
}

static CUresult stream_create(void)
{
    CUstream made;
    return cu.cuStreamCreate(&made, 0);
}

static CUresult is_capturing(void)
{
    CUstreamCaptureStatus status;
    return cu.cuStreamIsCapturing(other, &status);
}

static CUresult is_capturing_legacy(void)
{
    CUstreamCaptureStatus status;
    return cu.cuStreamIsCapturing(CU_STREAM_LEGACY, &status);
}

static CUresult h2d(void)
{
    return cu.cuMemcpyHtoD_v2(device, pageable, 64);
}

static CUresult h2d_async(void)
{
    return cu.cuMemcpyHtoDAsync_v2(device, pageable, 64, other);
}

static CUresult h2d_async_large(void)
{
    return cu.cuMemcpyHtoDAsync_v2(device, pageable, 8 << 20, other);
}

static CUresult h2d_async_pinned(void)
{
    return cu.cuMemcpyHtoDAsync_v2(device, host, 64, other);
}

static CUresult h2d_async_legacy(void)
{
    return cu.cuMemcpyHtoDAsync_v2(device, host, 64, CU_STREAM_LEGACY);
}

static CUresult d2h_async(void)
{
    return cu.cuMemcpyDtoHAsync_v2(pageable, device, 64, other);
}

static CUresult fill_async(void)
{
    return cu.cuMemsetD8Async(device, 0, 64, other);
}

static CUresult fill(void)
{
    return cu.cuMemsetD8_v2(device, 0, 64);
}

static CUresult launch(void)
{
    uint64_t ns = 0;
    void *params[] = {&ns};
    return cu.cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, other, params, NULL);
}

static CUresult launch_legacy(void)
{
    uint64_t ns = 0;
    void *params[] = {&ns};
    return cu.cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static CUresult module(void)
{
    CUmodule made;
    return cu.cuModuleLoadData(&made, KERNELS);
}

static CUresult instantiate(void)
{
    CUgraphExec exec;
    return cu.cuGraphInstantiateWithFlags(&exec, ready, 0);
}

static CUresult begin_other(void)
{
    CUgraph graph;
    CUresult result = cu.cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (!result)
        cu.cuStreamEndCapture(other, &graph);
    return result;
}

static CUresult current(void)
{
    CUcontext context;
    return cu.cuCtxGetCurrent(&context);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {
    {"alloc", mem_alloc},
    {"free", mem_free},
    {"free_null", mem_free_null},
    {"host_alloc", host_alloc},
    {"host_free", host_free},
    {"register", host_register},
    {"unregister", host_unregister},
    {"host_flags", host_flags},
    {"managed", managed},
    {"alloc_async", alloc_async},
    {"info", info},
    {"attribute", attribute},
    {"event_query", event_query},
    {"event_synchronize", event_synchronize},
    {"event_record", event_record},
    {"event_create", event_create},
    {"event_destroy", event_destroy},
    {"stream_query", stream_query},
    {"stream_synchronize", stream_synchronize},
    {"context_synchronize", context_synchronize},
    {"stream_create", stream_create},
    {"is_capturing", is_capturing},
    {"is_capturing_legacy", is_capturing_legacy},
    {"h2d", h2d},
    {"h2d_async", h2d_async},
    {"h2d_async_large", h2d_async_large},
    {"h2d_async_pinned", h2d_async_pinned},
    {"h2d_async_legacy", h2d_async_legacy},
    {"d2h_async", d2h_async},
    {"memset_async", fill_async},
    {"memset", fill},
    {"launch", launch},
    {"launch_legacy", launch_legacy},
    {"module_load", module},
    {"instantiate", instantiate},
    {"begin_other", begin_other},
    {"current", current},
};

/* Creates new objects, because the previous call may have freed the last ones. */
static void prepare(void)
{
    cu.cuMemFree_v2(spare);
    MUST(cu.cuMemAlloc_v2(&spare, 4096));
    cu.cuMemFreeHost(spare_host);
    MUST(cu.cuMemHostAlloc(&spare_host, 4096, 0));
    cu.cuMemHostUnregister(pageable);
    cu.cuMemHostRegister_v2(registered, 4096, 0);
}

struct errand {
    CUresult (*call)(void);
    bool relaxed;
    CUresult result;
};

static void run(void *data)
{
    struct errand *errand = data;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (errand->relaxed)
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    errand->result = errand->call();
    if (errand->relaxed)
        cu.cuThreadExchangeStreamCaptureMode(&mode);
}

static void each_call(const char *stream_name, const char *mode_name, CUstreamCaptureMode mode,
                      const char *who)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char name[128];
        CUgraph graph = NULL;
        struct errand errand = {calls[i].call, strstr(who, "relaxed") != NULL, CUDA_SUCCESS};
        prepare();
        MUST(cu.cuStreamBeginCapture_v2(capturing, mode));
        if (strncmp(who, "same", 4) == 0)
            run(&errand);
        else
            in_thread(run, &errand);
        CUresult end = cu.cuStreamEndCapture(capturing, &graph);
        snprintf(name, sizeof name, "%s.%s.%s.%s", stream_name, mode_name, who, calls[i].name);
        row(name, "code %d, capture ends with %d", (int)errand.result, (int)end);
        if (graph)
            cu.cuGraphDestroy(graph);
        MUST(cu.cuCtxSynchronize());
    }
}

void facts_forbidden(void)
{
    start();
    kernel("spin");
    pageable = aligned_alloc(4096, 8 << 20);
    registered = aligned_alloc(4096, 4096);
    memset(pageable, 0, 8 << 20), memset(registered, 0, 4096);
    MUST(cu.cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc_v2(&device, 8 << 20));
    MUST(cu.cuMemHostAlloc(&host, 4096, 0));
    MUST(cu.cuEventCreate(&event, 0));
    MUST(cu.cuGraphCreate(&ready, 0));
    each_call("apart", "global", CU_STREAM_CAPTURE_MODE_GLOBAL, "same");
    each_call("apart", "global", CU_STREAM_CAPTURE_MODE_GLOBAL, "other");
    each_call("apart", "global", CU_STREAM_CAPTURE_MODE_GLOBAL, "other_relaxed");
    each_call("apart", "local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "same");
    each_call("apart", "local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "other");
    each_call("apart", "relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, "same");
    MUST(cu.cuStreamDestroy_v2(capturing));
    MUST(cu.cuStreamCreate(&capturing, 0));
    each_call("blocking", "global", CU_STREAM_CAPTURE_MODE_GLOBAL, "same");
    each_call("blocking", "relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, "other_relaxed");
}
