/* SPDX-License-Identifier: Apache-2.0 */
/* Values on streams; calls that a forked child may make; the state after a fault on the device. */
#include "conform.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void facts_value(void)
{
    CUstream stream;
    CUdeviceptr device;
    void *block;
    uint32_t pageable = 0, got = 0;
    start();
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc_v2(&device, 4096));
    MUST(cu.cuMemHostAlloc(&block, 4096, 0));
    volatile uint32_t *host = block;
    row_code("write", cu.cuStreamWriteValue32_v2(stream, device, 7, 0));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuMemcpyDtoH_v2(&got, device, 4));
    row("written", "%u", got);
    row_code("write_host", cu.cuStreamWriteValue32_v2(stream, (uintptr_t)host, 9, 0));
    MUST(cu.cuStreamSynchronize(stream));
    row("written_host", "%u", *host);
    row_code("write_64", cu.cuStreamWriteValue64_v2(stream, device, 7, 0));
    row_code("write_unaligned", cu.cuStreamWriteValue32_v2(stream, device + 2, 7, 0));
    row_code("write_pageable", cu.cuStreamWriteValue32_v2(stream, (uintptr_t)&pageable, 7, 0));
    row_code("write_flags", cu.cuStreamWriteValue32_v2(stream, device, 7, 2));
    *host = 0;
    row_code("wait",
             cu.cuStreamWaitValue32_v2(stream, (uintptr_t)host, 5, CU_STREAM_WAIT_VALUE_GEQ));
    sleep_ms(50);
    row_code("waiting", cu.cuStreamQuery(stream));
    *host = 6;
    row_code("released", cu.cuStreamSynchronize(stream));
    row_code("wait_done",
             cu.cuStreamWaitValue32_v2(stream, (uintptr_t)host, 6, CU_STREAM_WAIT_VALUE_EQ));
    row_code("wait_done_synchronize", cu.cuStreamSynchronize(stream));
    row_code("wait_and",
             cu.cuStreamWaitValue32_v2(stream, (uintptr_t)host, 2, CU_STREAM_WAIT_VALUE_AND));
    row_code("wait_and_synchronize", cu.cuStreamSynchronize(stream));
    row_code("wait_pageable", cu.cuStreamWaitValue32_v2(stream, (uintptr_t)&pageable, 0, 0));
}

static void in_child(char *pinned)
{
    CUcontext context = NULL;
    CUdevice device;
    CUdeviceptr memory;
    CUstream stream;
    CUstreamCaptureStatus status;
    void *host;
    unsigned value;
    int count;
    const char *text;
    row("child.pinned", "%d", pinned[0]);
    pinned[0] = 2;
    row_code("child.init", cu.cuInit(0));
    row_code("child.version", cu.cuDriverGetVersion(&count));
    row_code("child.error_name", cu.cuGetErrorName(1, &text));
    row_code("child.count", cu.cuDeviceGetCount(&count));
    row_code("child.get", cu.cuDeviceGet(&device, 0));
    row_code("child.current", cu.cuCtxGetCurrent(&context));
    row_code("child.context_device", cu.cuCtxGetDevice(&device));
    row_code("child.set_current", cu.cuCtxSetCurrent(context));
    row_code("child.retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    row_code("child.alloc", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("child.host_alloc", cu.cuMemHostAlloc(&host, 4096, 0));
    row_code("child.free_host", cu.cuMemFreeHost(pinned));
    row_code("child.flags", cu.cuMemHostGetFlags(&value, pinned));
    row_code("child.attribute",
             cu.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)pinned));
    row_code("child.is_capturing", cu.cuStreamIsCapturing(NULL, &status));
    row_code("child.stream", cu.cuStreamCreate(&stream, 0));
    row_code("child.synchronize", cu.cuCtxSynchronize());
    row_code("child.procaddr", cu.cuGetProcAddress_v2("cuInit", &host, 2000, 0, NULL));
}

void facts_fork(void)
{
    char *pinned;
    int status = 0;
    start();
    MUST(cu.cuMemHostAlloc((void **)&pinned, 1 << 20, 0));
    char *registered = aligned_alloc(4096, 1 << 20);
    memset(registered, 1, 1 << 20);
    MUST(cu.cuMemHostRegister_v2(registered, 1 << 20, 0));
    pinned[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        row("child.registered", "%d", registered[0]);
        registered[0] = 2;
        in_child(pinned);
        _exit(0);
    }
    waitpid(child, &status, 0);
    row("child.ended", "%#x", (unsigned)status);
    row("parent.pinned", "%d", pinned[0]);
    row("parent.registered", "%d", registered[0]);
    row_code("parent.free_host", cu.cuMemFreeHost(pinned));
    row_code("parent.unregister", cu.cuMemHostUnregister(registered));
}

/* Prints the results of all calls after a kernel that broke the context. */
static void broken(const char *how)
{
    CUstream stream, fresh;
    CUevent event;
    CUdeviceptr device, memory;
    CUcontext context = start();
    void *host, *other;
    char text[64];
    int count;
    unsigned value;
    CUstreamCaptureStatus status;
    static char pageable[4096];
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuEventCreate(&event, 0));
    MUST(cu.cuMemAlloc_v2(&device, 4096));
    MUST(cu.cuMemHostAlloc(&host, 4096, 0));
    row_code("launch", cu.cuLaunchKernel(kernel(how), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    cu.cuEventRecord(event, stream);
    row_code("stream_synchronize", cu.cuStreamSynchronize(stream));
    row_code("stream_query", cu.cuStreamQuery(stream));
    row_code("event_query", cu.cuEventQuery(event));
    row_code("event_synchronize", cu.cuEventSynchronize(event));
    row_code("context_synchronize", cu.cuCtxSynchronize());
    row_code("alloc", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("host_alloc", cu.cuMemHostAlloc(&other, 4096, 0));
    row_code("h2d_async", cu.cuMemcpyHtoDAsync_v2(device, host, 64, stream));
    row_code("h2d", cu.cuMemcpyHtoD_v2(device, pageable, 64));
    row_code("is_capturing", cu.cuStreamIsCapturing(stream, &status));
    row_code("attribute",
             cu.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host));
    row_code("flags", cu.cuMemHostGetFlags(&value, host));
    row_code("stream_create", cu.cuStreamCreate(&fresh, 0));
    row_code("event_create", cu.cuEventCreate(&event, 0));
    row_code("count", cu.cuDeviceGetCount(&count));
    row_code("current", cu.cuCtxGetCurrent(&context));
    row_code("context_device", cu.cuCtxGetDevice(&count));
    row_code("device_name", cu.cuDeviceGetName(text, sizeof text, 0));
    row_code("set_current", cu.cuCtxSetCurrent(context));
    row_code("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    row_code("free", cu.cuMemFree_v2(device));
    row_code("free_host", cu.cuMemFreeHost(host));
    row_code("stream_destroy", cu.cuStreamDestroy_v2(stream));
    row_code("reset", cu.cuDevicePrimaryCtxReset_v2(0));
    row_code("retain_after_reset", cu.cuDevicePrimaryCtxRetain(&context, 0));
    row_code("set_after_reset", cu.cuCtxSetCurrent(context));
    row_code("alloc_after_reset", cu.cuMemAlloc_v2(&memory, 4096));
}

void facts_trap(void)
{
    broken("trap");
}

void facts_wild(void)
{
    broken("wild");
}
