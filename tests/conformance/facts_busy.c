/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls wait for a kernel that runs on a non-blocking stream. */
#include "conform.h"

#include <stdlib.h>
#include <string.h>

#define BUSY(name, call)                                                                           \
    do {                                                                                           \
        busy_kernel(stream);                                                                       \
        uint64_t since_ = now_ns();                                                                \
        CUresult result_ = call;                                                                   \
        row(name, "code %d, %s", (int)result_, waited(since_));                                    \
        MUST(cu.cuCtxSynchronize());                                                               \
    } while (0)

void facts_busy(void)
{
    CUstream stream, other;
    CUdeviceptr device, memory, pooled;
    CUevent event;
    CUmodule module;
    CUmemoryPool pool;
    CUcontext context = start(), second;
    void *host, *pinned;
    size_t size;
    char *registered = aligned_alloc(4096, 1 << 20);
    memset(registered, 0, 1 << 20);
    kernel("spin");
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc_v2(&device, 1 << 20));
    MUST(cu.cuMemAllocAsync(&pooled, 1 << 20, other));
    MUST(cu.cuMemHostAlloc(&pinned, 1 << 20, 0));
    MUST(cu.cuModuleLoadData(&module, KERNELS));
    BUSY("host_alloc", cu.cuMemHostAlloc(&host, 1 << 20, 0));
    BUSY("host_alloc_large", cu.cuMemHostAlloc(&host, 16 << 20, 0));
    BUSY("free_host_large", cu.cuMemFreeHost(host));
    BUSY("register", cu.cuMemHostRegister_v2(registered, 1 << 20, 0));
    BUSY("alloc", cu.cuMemAlloc_v2(&memory, 4 << 20));
    BUSY("alloc_large", cu.cuMemAlloc_v2(&memory, 512 << 20));
    BUSY("free", cu.cuMemFree_v2(memory));
    BUSY("free_small", cu.cuMemFree_v2(device));
    BUSY("free_host", cu.cuMemFreeHost(pinned));
    BUSY("unregister", cu.cuMemHostUnregister(registered));
    BUSY("free_null", cu.cuMemFree_v2(0));
    BUSY("free_host_null", cu.cuMemFreeHost(NULL));
    BUSY("free_invalid", cu.cuMemFree_v2(64));
    BUSY("alloc_async", cu.cuMemAllocAsync(&memory, 1 << 20, other));
    BUSY("free_async", cu.cuMemFreeAsync(memory, other));
    BUSY("free_pooled", cu.cuMemFree_v2(pooled));
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    BUSY("pool_trim", cu.cuMemPoolTrimTo(pool, 0));
    BUSY("info", cu.cuMemGetInfo_v2(&size, NULL));
    BUSY("managed", cu.cuMemAllocManaged(&memory, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    BUSY("managed_free", cu.cuMemFree_v2(memory));
    BUSY("stream_create", cu.cuStreamCreate(&other, 0));
    BUSY("stream_destroy", cu.cuStreamDestroy_v2(other));
    BUSY("event_create", cu.cuEventCreate(&event, 0));
    BUSY("event_record_legacy", cu.cuEventRecord(event, NULL));
    BUSY("event_query", cu.cuEventQuery(event));
    BUSY("event_destroy", cu.cuEventDestroy_v2(event));
    BUSY("stream_query", cu.cuStreamQuery(stream));
    BUSY("module_unload", cu.cuModuleUnload(module));
    BUSY("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    BUSY("release", cu.cuDevicePrimaryCtxRelease_v2(0));
    MUST(cu.cuCtxCreate_v2(&second, 0, 0));
    MUST(cu.cuMemAlloc_v2(&device, 4 << 20));
    MUST(cu.cuMemHostAlloc(&host, 4096, 0));
    MUST(cu.cuCtxSetCurrent(context));
    busy_kernel(stream);
    MUST(cu.cuCtxSetCurrent(second));
    uint64_t since = now_ns();
    row_code("other_context.free", cu.cuMemFree_v2(device));
    row("other_context.free_time", "%s", waited(since));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuCtxSynchronize());
    busy_kernel(stream);
    MUST(cu.cuCtxSetCurrent(second));
    since = now_ns();
    row_code("other_context.free_host", cu.cuMemFreeHost(host));
    row("other_context.free_host_time", "%s", waited(since));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuCtxSynchronize());
    busy_kernel(stream);
    MUST(cu.cuCtxSetCurrent(second));
    since = now_ns();
    row_code("other_context.synchronize", cu.cuCtxSynchronize());
    row("other_context.synchronize_time", "%s", waited(since));
}
