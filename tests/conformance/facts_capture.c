/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: beginning, ending and joining them; graphs and what they replay. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUstream one, two;
static CUevent event;
static unsigned char *pageable, *pinned;
static CUdeviceptr device;

static void setup(void)
{
    start();
    kernel("spin");
    pageable = aligned_alloc(4096, 16 << 20);
    memset(pageable, 0, 16 << 20);
    MUST(cu.cuMemHostAlloc((void **)&pinned, 16 << 20, 0));
    MUST(cu.cuMemAlloc_v2(&device, 16 << 20));
    MUST(cu.cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void begin(CUstream stream)
{
    MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* Ends the capture, and prints the result and the number of nodes. */
static void end(const char *name, CUstream stream)
{
    CUgraph graph = (CUgraph)1;
    size_t count = 0;
    CUresult result = cu.cuStreamEndCapture(stream, &graph);
    if (!result) {
        MUST(cu.cuGraphGetNodes(graph, NULL, &count));
        row(name, "0, %zu nodes", count);
        cu.cuGraphDestroy(graph);
    } else {
        row(name, "%d, graph %s", (int)result,
            !graph                ? "NULL"
            : graph == (CUgraph)1 ? "untouched"
                                  : "?");
    }
}

static void CUDA_CB nothing(void *data)
{
    (void)data;
}

static void CUDA_CB callback(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)status, (void)data;
}

/* One call on the capturing stream itself. */
#define OWN(name, call)                                                                            \
    do {                                                                                           \
        begin(one);                                                                                \
        row_code("own." name, call);                                                               \
        end("own." name "_end", one);                                                              \
        MUST(cu.cuCtxSynchronize());                                                               \
    } while (0)

static void own_stream(void)
{
    CUdeviceptr memory, pooled;
    CUevent fresh;
    MUST(cu.cuMemAllocAsync(&pooled, 4096, two));
    MUST(cu.cuEventCreate(&fresh, 0));
    OWN("nothing", CUDA_SUCCESS);
    OWN("host_function", cu.cuLaunchHostFunc(one, nothing, NULL));
    OWN("h2d_async_pageable", cu.cuMemcpyHtoDAsync_v2(device, pageable, 64, one));
    OWN("h2d_async_pageable_large", cu.cuMemcpyHtoDAsync_v2(device, pageable, 16 << 20, one));
    OWN("h2d_async_pinned", cu.cuMemcpyHtoDAsync_v2(device, pinned, 64, one));
    OWN("d2h_async_pageable", cu.cuMemcpyDtoHAsync_v2(pageable, device, 64, one));
    OWN("h2d_async_size_0", cu.cuMemcpyHtoDAsync_v2(device, pageable, 0, one));
    OWN("h2d_async_bad", cu.cuMemcpyHtoDAsync_v2(0, pageable, 64, one));
    OWN("memset_async", cu.cuMemsetD8Async(device, 0, 64, one));
    OWN("synchronize", cu.cuStreamSynchronize(one));
    OWN("query", cu.cuStreamQuery(one));
    OWN("callback", cu.cuStreamAddCallback(one, callback, NULL, 0));
    OWN("event_record", cu.cuEventRecord(event, one));
    OWN("alloc_async", cu.cuMemAllocAsync(&memory, 4096, one));
    OWN("begin_again", cu.cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OWN("write_value", cu.cuStreamWriteValue32_v2(one, device, 1, 0));
    OWN("get_flags", cu.cuStreamGetFlags(one, &(unsigned){0}));
    OWN("get_priority", cu.cuStreamGetPriority(one, &(int){0}));
    OWN("get_context", cu.cuStreamGetCtx(one, &(CUcontext){NULL}));
    OWN("get_id", cu.cuStreamGetId(one, &(unsigned long long){0}));
    OWN("free_async", cu.cuMemFreeAsync(pooled, one));
    OWN("wait_fresh_event", cu.cuStreamWaitEvent(one, fresh, 0));
    OWN("h2h_async", cu.cuMemcpyAsync((uintptr_t)pageable, (uintptr_t)pinned, 64, one));
}

static void status(const char *name, CUstream stream)
{
    CUstreamCaptureStatus is = 9;
    cuuint64_t id = 0;
    char text[64];
    CUresult result = cu.cuStreamIsCapturing(stream, &is);
    snprintf(text, sizeof text, "status.%s", name);
    row(text, "code %d, status %d", (int)result, (int)is);
    result = cu.cuStreamGetCaptureInfo_v2(stream, &is, &id, NULL, NULL, NULL);
    snprintf(text, sizeof text, "info.%s", name);
    row(text, "code %d, status %d, id %s", (int)result, (int)is, id ? "given" : "0");
}

static void statuses(void)
{
    CUdeviceptr memory;
    status("none", one);
    begin(one);
    status("active", one);
    status("other", two);
    status("legacy", CU_STREAM_LEGACY);
    row_code("unsafe", cu.cuMemAlloc_v2(&memory, 4096));
    status("invalidated", one);
    row_code("unsafe_again", cu.cuMemAlloc_v2(&memory, 4096));
    row_code("work_after", cu.cuMemcpyHtoDAsync_v2(device, pinned, 64, one));
    row_code("record_after", cu.cuEventRecord(event, one));
    row_code("synchronize_after", cu.cuStreamSynchronize(one));
    end("invalidated_end", one);
    status("ended", one);
    end("end_without", one);
    end("end_legacy", CU_STREAM_LEGACY);
    row_code("begin_legacy",
             cu.cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
    row_code("begin_mode", cu.cuStreamBeginCapture_v2(one, 7));
    row_code("begin_own",
             cu.cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    end("end_own", CU_STREAM_PER_THREAD);
    begin(one);
    row_code("event_in_capture", cu.cuEventRecord(event, one));
    row_code("event_in_capture_query", cu.cuEventQuery(event));
    end("event_in_capture_end", one);
    row_code("event_after_capture_query", cu.cuEventQuery(event));
    row_code("event_after_capture_wait", cu.cuStreamWaitEvent(two, event, 0));
    MUST(cu.cuEventRecord(event, two));
    row_code("event_recorded_again_query", cu.cuStreamSynchronize(two) | cu.cuEventQuery(event));
}

static void end_elsewhere(void *name)
{
    end(*(const char **)name, one);
}

static void joining(void)
{
    begin(one);
    MUST(cu.cuEventRecord(event, one));
    row_code("fork.wait", cu.cuStreamWaitEvent(two, event, 0));
    status("forked", two);
    end("fork.end_on_fork", two);
    end("fork.unjoined", one);
    status("fork_after", two);
    begin(one);
    MUST(cu.cuEventRecord(event, one));
    MUST(cu.cuStreamWaitEvent(two, event, 0));
    MUST(cu.cuLaunchHostFunc(two, nothing, NULL));
    MUST(cu.cuEventRecord(event, two));
    row_code("fork.join", cu.cuStreamWaitEvent(one, event, 0));
    end("fork.joined", one);
    status("join_after", two);
    MUST(cu.cuEventRecord(event, two));
    begin(one);
    row_code("outside.wait", cu.cuStreamWaitEvent(one, event, 0));
    end("outside.end", one);
    begin(one);
    begin(two);
    MUST(cu.cuEventRecord(event, one));
    row_code("merge.wait", cu.cuStreamWaitEvent(two, event, 0));
    end("merge.end_two", two);
    end("merge.end_one", one);
    begin(one);
    in_thread(end_elsewhere, &(const char *){"thread.end_elsewhere"});
    end("thread.end_then", one);
    MUST(cu.cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    in_thread(end_elsewhere, &(const char *){"thread.relaxed_end_elsewhere"});
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    row_code("exchange", cu.cuThreadExchangeStreamCaptureMode(&mode));
    row("exchange_was", "%d", (int)mode);
    row_code("exchange_back", cu.cuThreadExchangeStreamCaptureMode(&mode));
    row("exchange_back_was", "%d", (int)mode);
    mode = 9;
    row_code("exchange_bad", cu.cuThreadExchangeStreamCaptureMode(&mode));
    row("exchange_bad_was", "%d", (int)mode);
}

void facts_capture(void)
{
    setup();
    own_stream();
    statuses();
    joining();
}

static int ran;

static void CUDA_CB count(void *data)
{
    (void)data;
    ran++;
}

static void replay(const char *name, unsigned char *source)
{
    CUgraph graph;
    CUgraphExec exec;
    char text[64];
    unsigned char seen[3];
    memset(source, 1, 64);
    MUST(cu.cuMemsetD8_v2(device, 0, 64));
    begin(one);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, source, 64, one));
    MUST(cu.cuLaunchHostFunc(one, count, NULL));
    memset(source, 2, 64);
    MUST(cu.cuStreamEndCapture(one, &graph));
    MUST(cu.cuMemcpyDtoH_v2(&seen[0], device, 1));
    MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu.cuGraphLaunch(exec, one));
    MUST(cu.cuStreamSynchronize(one));
    MUST(cu.cuMemcpyDtoH_v2(&seen[1], device, 1));
    memset(source, 3, 64);
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphLaunch(exec, two));
    MUST(cu.cuStreamSynchronize(two));
    MUST(cu.cuMemcpyDtoH_v2(&seen[2], device, 1));
    snprintf(text, sizeof text, "replay.%s", name);
    row(text, "captured %d, first %d, second %d", seen[0], seen[1], seen[2]);
    MUST(cu.cuGraphExecDestroy(exec));
}

void facts_graph(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    static struct fill fill;
    size_t nodes = 99;
    setup();
    replay("pageable", pageable);
    replay("pinned", pinned);
    row("host_functions", "%d", ran);
    row_code("create", cu.cuGraphCreate(&graph, 0));
    CUDA_HOST_NODE_PARAMS params = {count, NULL};
    row_code("add_host", cu.cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    row_code("nodes", cu.cuGraphGetNodes(graph, NULL, &nodes));
    row("nodes_are", "%zu", nodes);
    row_code("instantiate", cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    busy_fill(one, &fill, NULL, 0, 0);
    uint64_t since = now_ns();
    row_code("launch_busy", cu.cuGraphLaunch(exec, one));
    row("launch_busy_time", "%s", waited(since));
    MUST(cu.cuStreamSynchronize(one));
    row("host_functions_then", "%d", ran);
    row_code("launch_null", cu.cuGraphLaunch(NULL, one));
    row_code("upload", cu.cuGraphUpload(exec, one));
    row_code("exec_destroy", cu.cuGraphExecDestroy(exec));
    row_code("destroy", cu.cuGraphDestroy(graph));
    row_code("destroy_null", cu.cuGraphDestroy(NULL));
}
