/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events, and which streams wait for which. */
#include "conform.h"

#include <stdio.h>

static CUstream make(unsigned flags)
{
    CUstream stream;
    MUST(cu.cuStreamCreate(&stream, flags));
    return stream;
}

static void handles(void)
{
    CUstream stream = make(CU_STREAM_NON_BLOCKING), other;
    unsigned flags = 99;
    int priority = 99;
    CUcontext context, current;
    row_code("create.flags", cu.cuStreamCreate(&other, 2));
    row_code("create.null", cu.cuStreamCreate(NULL, 0));
    row_code("get_flags", cu.cuStreamGetFlags(stream, &flags));
    row("flags", "%u", flags);
    row_code("get_flags_null", cu.cuStreamGetFlags(stream, NULL));
    row_code("get_flags_legacy", cu.cuStreamGetFlags(CU_STREAM_LEGACY, &flags));
    row("flags_legacy", "%u", flags);
    row_code("get_flags_own", cu.cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
    row("flags_own", "%u", flags);
    row_code("context", cu.cuStreamGetCtx(stream, &context));
    MUST(cu.cuCtxGetCurrent(&current));
    row("context_is", "%s", context == current ? "current" : "another");
    row_code("context_legacy", cu.cuStreamGetCtx(NULL, &context));
    for (int wanted = -20; wanted <= 20; wanted += 10) {
        char name[32];
        MUST(cu.cuStreamCreateWithPriority(&other, 0, wanted));
        MUST(cu.cuStreamGetPriority(other, &priority));
        snprintf(name, sizeof name, "priority.%d", wanted);
        row(name, "%d", priority);
        MUST(cu.cuStreamDestroy_v2(other));
    }
    row_code("destroy", cu.cuStreamDestroy_v2(stream));
    row_code("destroy_null", cu.cuStreamDestroy_v2(NULL));
    row_code("destroy_legacy", cu.cuStreamDestroy_v2(CU_STREAM_LEGACY));
    row_code("destroy_own", cu.cuStreamDestroy_v2(CU_STREAM_PER_THREAD));
    row_code("query", cu.cuStreamQuery(NULL));
    row_code("query_own", cu.cuStreamQuery(CU_STREAM_PER_THREAD));
    row_code("host_function_null", cu.cuLaunchHostFunc(NULL, NULL, NULL));
}

static void CUDA_CB mark(void *data)
{
    __atomic_store_n((bool *)data, true, __ATOMIC_SEQ_CST);
}

/* Prints whether work on `second` runs while earlier work on `first` is still running. */
static void pair(const char *name, CUstream first, CUstream second)
{
    static struct fill fill;
    static bool done;
    done = false;
    busy_fill(first, &fill, NULL, 0, 0);
    MUST(cu.cuLaunchHostFunc(second, mark, &done));
    sleep_ms((unsigned)(work_ns / 3000000));
    row(name, "%s", __atomic_load_n(&done, __ATOMIC_SEQ_CST) ? "runs beside" : "waits");
    MUST(cu.cuCtxSynchronize());
}

/* Does the same with a kernel first and a fill second. No host thread takes part in either. */
static void kernels(const char *name, CUstream first, CUstream second, CUdeviceptr device)
{
    static CUevent event;
    if (!event)
        MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    busy_kernel(first);
    MUST(cu.cuMemsetD8Async(device, 1, 4096, second));
    MUST(cu.cuEventRecord(event, second));
    sleep_ms((unsigned)(work_ns / 3000000));
    row(name, "%s", cu.cuEventQuery(event) == CUDA_SUCCESS ? "runs beside" : "waits");
    MUST(cu.cuCtxSynchronize());
}

static void query_beside(const char *name, CUstream busy, CUstream asked)
{
    static struct fill fill;
    char text[64];
    busy_fill(busy, &fill, NULL, 0, 0);
    sleep_ms((unsigned)(work_ns / 6000000));
    snprintf(text, sizeof text, "query.%s", name);
    row_code(text, cu.cuStreamQuery(asked));
    uint64_t since = now_ns();
    MUST(cu.cuStreamSynchronize(asked));
    snprintf(text, sizeof text, "synchronize.%s", name);
    row(text, "%s", waited(since));
    MUST(cu.cuCtxSynchronize());
}

void facts_stream(void)
{
    static struct fill fill;
    start();
    handles();
    CUstream one = make(0), two = make(0), apart = make(CU_STREAM_NON_BLOCKING);
    CUstream legacy = CU_STREAM_LEGACY, own = CU_STREAM_PER_THREAD;
    pair("order.legacy_then_blocking", legacy, one);
    pair("order.blocking_then_legacy", one, legacy);
    pair("order.blocking_then_blocking", one, two);
    pair("order.legacy_then_non_blocking", legacy, apart);
    pair("order.non_blocking_then_legacy", apart, legacy);
    pair("order.legacy_then_own", legacy, own);
    pair("order.own_then_legacy", own, legacy);
    pair("order.own_then_blocking", own, one);
    pair("order.null_then_own", NULL, own);
    CUdeviceptr device;
    MUST(cu.cuMemAlloc_v2(&device, 4096));
    kernel("spin");
    kernels("kernel.legacy_then_blocking", legacy, one, device);
    kernels("kernel.blocking_then_legacy", one, legacy, device);
    kernels("kernel.blocking_then_blocking", one, two, device);
    kernels("kernel.legacy_then_non_blocking", legacy, apart, device);
    kernels("kernel.non_blocking_then_legacy", apart, legacy, device);
    kernels("kernel.legacy_then_own", legacy, own, device);
    kernels("kernel.own_then_legacy", own, legacy, device);
    kernels("kernel.own_then_blocking", own, one, device);
    query_beside("itself", one, one);
    query_beside("legacy_beside_blocking", one, legacy);
    query_beside("blocking_beside_legacy", legacy, one);
    query_beside("legacy_beside_non_blocking", apart, legacy);
    query_beside("blocking_beside_blocking", one, two);
    query_beside("own_beside_legacy", legacy, own);
    busy_fill(apart, &fill, NULL, 0, 0);
    uint64_t since = now_ns();
    row_code("destroy_busy", cu.cuStreamDestroy_v2(apart));
    row("destroy_busy_time", "%s", waited(since));
    MUST(cu.cuCtxSynchronize());
    row("destroy_busy_work", "%s", fill.done ? "done" : "lost");
}

static CUevent make_event(unsigned flags)
{
    CUevent event;
    MUST(cu.cuEventCreate(&event, flags));
    return event;
}

void facts_event(void)
{
    static struct fill fill;
    static bool done;
    CUevent event, fresh, untimed, none;
    float ms;
    start();
    CUstream stream = make(CU_STREAM_NON_BLOCKING), other = make(CU_STREAM_NON_BLOCKING);
    event = make_event(0), fresh = make_event(0), untimed = make_event(CU_EVENT_DISABLE_TIMING);
    row_code("create.flags", cu.cuEventCreate(&none, 8));
    row_code("create.interprocess", cu.cuEventCreate(&none, CU_EVENT_INTERPROCESS));
    row_code("create.null", cu.cuEventCreate(NULL, 0));
    row_code("fresh.query", cu.cuEventQuery(fresh));
    row_code("fresh.synchronize", cu.cuEventSynchronize(fresh));
    row_code("fresh.elapsed", cu.cuEventElapsedTime(&ms, fresh, fresh));
    row_code("fresh.wait", cu.cuStreamWaitEvent(stream, fresh, 0));
    MUST(cu.cuEventRecord(untimed, stream));
    MUST(cu.cuStreamSynchronize(stream));
    row_code("untimed.elapsed", cu.cuEventElapsedTime(&ms, untimed, untimed));
    busy_fill(stream, &fill, NULL, 0, 0);
    row_code("record", cu.cuEventRecord(event, stream));
    row_code("busy.query", cu.cuEventQuery(event));
    row_code("busy.elapsed", cu.cuEventElapsedTime(&ms, event, event));
    row_code("wait", cu.cuStreamWaitEvent(other, event, 0));
    MUST(cu.cuLaunchHostFunc(other, mark, &done));
    sleep_ms((unsigned)(work_ns / 3000000));
    row("wait_other_stream", "%s",
        __atomic_load_n(&done, __ATOMIC_SEQ_CST) ? "runs beside" : "waits");
    uint64_t since = now_ns();
    row_code("busy.synchronize", cu.cuEventSynchronize(event));
    row("busy.synchronize_time", "%s", now_ns() - since > work_ns / 3 ? "blocks" : "at once");
    MUST(cu.cuStreamSynchronize(other));
    row("wait_then", "%s", __atomic_load_n(&done, __ATOMIC_SEQ_CST) ? "done" : "lost");
    row_code("done.query", cu.cuEventQuery(event));
    row_code("done.elapsed", cu.cuEventElapsedTime(&ms, event, event));
    row("done.elapsed_is", "%s", ms == 0 ? "0" : "not 0");
    busy_fill(stream, &fill, NULL, 0, 0);
    MUST(cu.cuEventRecord(event, stream));
    since = now_ns();
    row_code("busy.destroy", cu.cuEventDestroy_v2(event));
    row("busy.destroy_time", "%s", waited(since));
    row_code("wait_flags", cu.cuStreamWaitEvent(stream, fresh, 8));
    row_code("destroy_null", cu.cuEventDestroy_v2(NULL));
    row_code("query_null", cu.cuEventQuery(NULL));
    row_code("record_null", cu.cuEventRecord(NULL, stream));
    MUST(cu.cuCtxSynchronize());
}
