/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: which is current on which thread, and what remains of a context that ended. */
#include "conform.h"

static void other_thread(void *data)
{
    CUcontext seen, *before = data;
    MUST(cu.cuCtxSetCurrent(NULL));
    MUST(cu.cuCtxGetCurrent(&seen));
    row("thread.without", "%s", seen ? "a context" : "NULL");
    MUST(cu.cuCtxSetCurrent(*before));
}

static void primary(void)
{
    unsigned flags = 99;
    int active = 99;
    CUcontext one = NULL, two = NULL;
    row_code("primary.state", cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    row("primary.state_fresh", "flags %u, active %d", flags, active);
    row_code("primary.release_fresh", cu.cuDevicePrimaryCtxRelease_v2(0));
    row_code("primary.reset_fresh", cu.cuDevicePrimaryCtxReset_v2(0));
    row_code("primary.retain", cu.cuDevicePrimaryCtxRetain(&one, 0));
    row_code("primary.retain_again", cu.cuDevicePrimaryCtxRetain(&two, 0));
    row("primary.same", "%s", one == two ? "yes" : "no");
    row_code("primary.retain_beyond", cu.cuDevicePrimaryCtxRetain(&two, 99));
    row_code("primary.retain_null", cu.cuDevicePrimaryCtxRetain(NULL, 0));
    cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("primary.state_retained", "flags %u, active %d", flags, active);
    row_code("primary.destroy", cu.cuCtxDestroy_v2(one));
    row_code("primary.set_flags_active", cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_YIELD));
    row_code("primary.set_flags_bad", cu.cuDevicePrimaryCtxSetFlags_v2(0, 0x10000));
    cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("primary.state_flags", "flags %u, active %d", flags, active);
    MUST(cu.cuDevicePrimaryCtxSetFlags_v2(0, 0));
}

static void none_current(void)
{
    CUcontext context = (CUcontext)1;
    CUdevice device;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    void *host = (void *)1;
    unsigned value;
    row_code("none.get", cu.cuCtxGetCurrent(&context));
    row("none.is", "%s", context ? "a context" : "NULL");
    row_code("none.get_null", cu.cuCtxGetCurrent(NULL));
    row_code("none.device", cu.cuCtxGetDevice(&device));
    row_code("none.alloc", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("none.alloc_size_0", cu.cuMemAlloc_v2(&memory, 0));
    row_code("none.host_alloc", cu.cuMemHostAlloc(&host, 4096, 0));
    row_code("none.host_alloc_size_0", cu.cuMemHostAlloc(&host, 0, 0));
    row_code("none.free_null", cu.cuMemFree_v2(0));
    row_code("none.free_host_null", cu.cuMemFreeHost(NULL));
    row_code("none.stream", cu.cuStreamCreate(&stream, 0));
    row_code("none.event", cu.cuEventCreate(&event, 0));
    row_code("none.synchronize", cu.cuCtxSynchronize());
    row_code("none.stream_synchronize", cu.cuStreamSynchronize(NULL));
    row_code("none.flags", cu.cuMemHostGetFlags(&value, &value));
    row_code("none.attribute", cu.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                        (CUdeviceptr)(uintptr_t)&value));
    row_code("none.pop", cu.cuCtxPopCurrent_v2(&context));
    row_code("none.push_null", cu.cuCtxPushCurrent_v2(NULL));
    row_code("none.set_null", cu.cuCtxSetCurrent(NULL));
    row_code("none.destroy_null", cu.cuCtxDestroy_v2(NULL));
}

static void stack(CUcontext one)
{
    CUcontext two = NULL, three = NULL, seen = NULL;
    CUdevice device = -1;
    unsigned value = 0;
    row_code("create.v2", cu.cuCtxCreate_v2(&two, CU_CTX_SCHED_YIELD, 0));
    MUST(cu.cuCtxGetCurrent(&seen));
    row("create.current", "%s", seen == two ? "the new one" : "another");
    row_code("create.v4", cu.cuCtxCreate_v4(&three, NULL, 0, 0));
    row_code("create.beyond", cu.cuCtxCreate_v2(&seen, 0, 99));
    row_code("create.flags", cu.cuCtxCreate_v2(&seen, 0x10000, 0));
    row_code("create.null", cu.cuCtxCreate_v2(NULL, 0, 0));
    row_code("flags", cu.cuCtxGetFlags(&value));
    row("flags_are", "%u", value);
    row_code("api_version", cu.cuCtxGetApiVersion(three, &value));
    row("api_version_is", "%u", value);
    row_code("get_device", cu.cuCtxGetDevice(&device));
    row_code("get_device_null", cu.cuCtxGetDevice(NULL));
    if (cu.cuCtxGetDevice_v2) {
        row_code("get_device_v2", cu.cuCtxGetDevice_v2(&device, one));
        row_code("get_device_v2_null", cu.cuCtxGetDevice_v2(&device, NULL));
    }
    row_code("pop", cu.cuCtxPopCurrent_v2(&seen));
    row("pop_gave", "%s", seen == three ? "the top" : "another");
    row_code("push", cu.cuCtxPushCurrent_v2(one));
    row_code("set", cu.cuCtxSetCurrent(two));
    MUST(cu.cuCtxPopCurrent_v2(&seen));
    row("set_replaces", "%s", seen == two ? "the top" : "another");
    MUST(cu.cuCtxGetCurrent(&seen));
    row("below", "%s", seen == two ? "the one before" : "another");
    row_code("set_null", cu.cuCtxSetCurrent(NULL));
    MUST(cu.cuCtxGetCurrent(&seen));
    row("set_null_left", "%s", !seen ? "NULL" : seen == one ? "the first" : "another");
    row_code("destroy.other", cu.cuCtxDestroy_v2(three));
    MUST(cu.cuCtxSetCurrent(two));
    row_code("destroy.current", cu.cuCtxDestroy_v2(two));
    MUST(cu.cuCtxGetCurrent(&seen));
    row("destroy.left", "%s", !seen ? "NULL" : seen == two ? "the destroyed" : "another");
}

static void ended(CUcontext one)
{
    CUdeviceptr memory = 0;
    CUcontext seen = NULL, again = NULL;
    unsigned flags;
    int active;
    size_t before = 0, after = 0;
    MUST(cu.cuCtxSetCurrent(one));
    MUST(cu.cuMemGetInfo_v2(&before, NULL));
    MUST(cu.cuMemAlloc_v2(&memory, 256 << 20));
    row_code("ended.release", cu.cuDevicePrimaryCtxRelease_v2(0));
    row_code("ended.release_used", cu.cuMemGetInfo_v2(&after, NULL));
    row_code("ended.release_last", cu.cuDevicePrimaryCtxRelease_v2(0));
    cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("ended.state", "active %d", active);
    row_code("ended.release_more", cu.cuDevicePrimaryCtxRelease_v2(0));
    row_code("ended.current", cu.cuCtxGetCurrent(&seen));
    row("ended.current_is", "%s", seen == one ? "the same" : seen ? "another" : "NULL");
    row_code("ended.alloc", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("ended.synchronize", cu.cuCtxSynchronize());
    row_code("ended.retain", cu.cuDevicePrimaryCtxRetain(&again, 0));
    row_code("ended.set", cu.cuCtxSetCurrent(again));
    row_code("ended.alloc_again", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("ended.free_again", cu.cuMemFree_v2(memory));
    MUST(cu.cuMemAlloc_v2(&memory, 4096));
    row_code("reset", cu.cuDevicePrimaryCtxReset_v2(0));
    cu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    row("reset.state", "active %d", active);
    row_code("reset.alloc", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("reset.release", cu.cuDevicePrimaryCtxRelease_v2(0));
}

void facts_context(void)
{
    CUcontext one;
    int least = 9, greatest = 9;
    MUST(cu.cuInit(0));
    none_current();
    primary();
    MUST(cu.cuDevicePrimaryCtxRetain(&one, 0));
    row_code("release", cu.cuDevicePrimaryCtxRelease_v2(0));
    MUST(cu.cuCtxSetCurrent(one));
    MUST(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    row("priorities", "%d to %d", least, greatest);
    row_code("priorities_null", cu.cuCtxGetStreamPriorityRange(NULL, NULL));
    other_thread(&one);
    stack(one);
    ended(one);
}
