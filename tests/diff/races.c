/* SPDX-License-Identifier: Apache-2.0 */
/*
 * races MODE COUNT: captures that begin while another thread copies pageable memory.
 *
 * joined: the copies are asynchronous, on the captured stream. If a copy is in the graph, a launch
 * after the source has changed copies only new bytes. refused: the copies are synchronous, on a
 * blocking stream. A refused copy moves no byte, and only a refused copy invalidates a capture. slow: the call that
 * begins the capture is slow (SIM_DELAY), and a copy that the driver does not let wait returns, although the legacy
 * stream's work before its DMAs waits for what this thread does next. within: a capture begins while the driver's call for
 * a DMA, or for the copy, is slow. batches: a graph has all members of a batch or none.
 */
#include "kit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (8 * MIB)
#define ALLOWED 4 /* copies of a round, after the one that runs when it begins */
#define TURNS 6   /* places on the device, more than one round's copies */

static CUcontext context;
static CUstream captured;
static unsigned char *host, *back, *pinned;
static CUdeviceptr device;
static volatile bool stop;
static volatile unsigned long copies, refused;

/* The copying thread pauses after this many copies. */
static long budget = LONG_MAX;

static void rest_without_budget(void)
{
    while (__atomic_load_n(&budget, __ATOMIC_SEQ_CST) <= 0 && !stop)
        kit_sleep_us(200);
}

static void allow_copies(long count)
{
    __atomic_store_n(&budget, count, __ATOMIC_SEQ_CST);
}

static void await_rest(void)
{
    while (__atomic_load_n(&budget, __ATOMIC_SEQ_CST) > 0)
        kit_sleep_us(100);
}

static void await_copies(unsigned long wanted)
{
    for (const unsigned long before = copies; copies - before < wanted;)
        kit_sleep_us(100);
}

static void copy_asynchronously(void *unused)
{
    (void)unused;
    for (; !stop; copies++) {
        rest_without_budget();
        MUST(cu.cuMemcpyHtoDAsync_v2(device + copies % TURNS * SIZE, host, SIZE, captured));
        kit_sleep_us(1500); /* until the stream is idle again */
        __atomic_sub_fetch(&budget, 1, __ATOMIC_SEQ_CST);
    }
}

/* Reads the device's bytes on a separate stream. */
static void read_device(CUdeviceptr at)
{
    static CUstream own;
    if (!own)
        own = kit_stream();
    MUST(cu.cuMemcpyDtoHAsync_v2(pinned, at, SIZE, own));
    MUST(cu.cuStreamSynchronize(own));
}

static bool device_is(unsigned seed)
{
    read_device(device);
    return kit_is(pinned, SIZE, seed);
}

/* Checks all places. Those to which no node copies stay 0. */
static void check_places(unsigned seed, size_t nodes)
{
    size_t written = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        read_device(device + turn * SIZE);
        if (kit_is(pinned, SIZE, seed)) {
            written++;
            continue;
        }
        for (size_t i = 0; i < SIZE; i++)
            if (pinned[i])
                kit_fail("a graph copies other bytes than its source's; nodes", (long)nodes);
    }
    if (written != nodes)
        kit_fail("a graph has nodes that are no whole copy", (long)nodes);
}

static void launch(CUgraph graph)
{
    CUgraphExec exec;
    CUstream own = kit_stream();
    MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu.cuGraphLaunch(exec, own));
    MUST(cu.cuStreamSynchronize(own));
    MUST(cu.cuGraphExecDestroy(exec));
    MUST(cu.cuStreamDestroy_v2(own));
}

static void join_round(unsigned round)
{
    CUgraph graph = NULL;
    size_t nodes = 0;
    /* Before the capture: this thread may have to wait for a CPU after it, and a round has at most TURNS copies. */
    allow_copies(ALLOWED);
    kit_sleep_us(rand() % 3000);
    MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    await_rest();
    MUST(cu.cuStreamEndCapture(captured, &graph));
    MUST(cu.cuStreamSynchronize(captured));
    kit_fill(host, SIZE, round + 1);
    MUST(cu.cuMemsetD8Async(device, 0, TURNS * SIZE, captured));
    MUST(cu.cuStreamSynchronize(captured));
    MUST(cu.cuGraphGetNodes(graph, NULL, &nodes));
    launch(graph);
    check_places(round + 1, nodes);
    MUST(cu.cuGraphDestroy(graph));
    allow_copies(LONG_MAX);
}

static void join_rounds(unsigned long rounds)
{
    captured = kit_stream();
    kit_fill(host, SIZE, 1);
    kit_thread(context, copy_asynchronously, NULL);
    await_copies(40); /* from now on, the ring exists */
    for (unsigned long round = 0; round < rounds; round++)
        join_round((unsigned)round);
}

static bool is_refusal(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

static void copy_there(unsigned seed)
{
    kit_fill(host, SIZE, seed + 1);
    const CUresult result = cu.cuMemcpyHtoD_v2(device, host, SIZE);
    if (is_refusal(result)) {
        refused++;
        if (!device_is(seed))
            kit_fail("a refused copy to the device moved bytes", (long)result);
        kit_fill(host, SIZE, seed);
    } else {
        kit_must(result, "cuMemcpyHtoD_v2");
        WANT(device_is(seed + 1));
    }
}

static void copy_back(void)
{
    memset(back, 7, SIZE);
    const CUresult result = cu.cuMemcpyDtoH_v2(back, device, SIZE);
    if (!is_refusal(result)) {
        kit_must(result, "cuMemcpyDtoH_v2");
        return;
    }
    refused++;
    for (size_t i = 0; i < SIZE; i++)
        if (back[i] != 7)
            kit_fail("a refused copy from the device moved bytes; the first at", (long)i);
}

static void copy_synchronously(void *unused)
{
    (void)unused;
    kit_fill(host, SIZE, 0);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, kit_stream()));
    MUST(cu.cuCtxSynchronize());
    for (; !stop; copies++) {
        unsigned seed = 0;
        while (!device_is(seed))
            seed++;
        copy_there(seed);
        copy_back();
    }
}

static void refuse_rounds(unsigned long rounds)
{
    unsigned long died = 0;
    MUST(cu.cuStreamCreate(&captured, CU_STREAM_DEFAULT));
    kit_thread(context, copy_synchronously, NULL);
    await_copies(20);
    for (unsigned long round = 0; round < rounds; round++) {
        CUgraph graph = NULL;
        kit_sleep_us(rand() % 4000);
        MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
        kit_sleep_us(rand() % 1000);
        if (cu.cuStreamEndCapture(captured, &graph))
            died++;
        else
            MUST(cu.cuGraphDestroy(graph));
    }
    stop = true;
    kit_join();
    if (died > refused)
        kit_fail("captures ended that no refused copy explains", (long)(died - refused));
    fprintf(stderr, "%lu of %lu captures died, %lu copies refused\n", died, rounds, refused);
}

static CUstream blocking;
static volatile bool over;

static void capture_within(void *unused)
{
    CUgraph graph;

    (void)unused;
    while (!over && cu.cuStreamQuery(blocking) == CUDA_SUCCESS)
        ;
    MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuStreamEndCapture(captured, &graph));
    MUST(cu.cuGraphDestroy(graph));
}

static void slow_rounds(unsigned rounds)
{
    uint32_t *const gates = kit_pinned(rounds * sizeof(*gates));

    captured = kit_stream();
    MUST(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    kit_complete_ring(device, host, SIZE, blocking);
    memset(gates, 0, rounds * sizeof(*gates));
    kit_clock(gates, rounds);
    for (unsigned i = 0; i < rounds; i++) {
        kit_fill(host, 2 * MIB, i + 1);
        kit_hold(CU_STREAM_LEGACY, &gates[i]);
        over = false;
        kit_thread(context, capture_within, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, 2 * MIB, blocking));
        WANT(!kit_clock_struck());
        over = true;
        kit_release(&gates[i]);
        kit_join();
        MUST(cu.cuMemcpyDtoHAsync_v2(pinned, device, 2 * MIB, blocking));
        MUST(cu.cuStreamSynchronize(blocking));
        WANT(kit_is(pinned, 2 * MIB, i + 1));
    }
}

static CUgraph around;
static size_t captured_nodes;

static void capture_around(void *unused)
{
    (void)unused;
    kit_sleep_us(50000);
    MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    kit_sleep_us(300000);
    MUST(cu.cuStreamEndCapture(captured, &around));
    MUST(cu.cuGraphGetNodes(around, NULL, &captured_nodes));
}

/* The copy was made, or all of it is in the graph. */
static void within_rounds(unsigned rounds)
{
    captured = kit_stream();
    kit_complete_ring(device, host, SIZE, captured);
    for (unsigned i = 0; i < rounds; i++) {
        MUST(cu.cuMemsetD8Async(device, 0, SIZE, captured));
        MUST(cu.cuStreamSynchronize(captured));
        kit_fill(host, SIZE, i + 1);
        kit_thread(context, capture_around, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, captured));
        kit_join();
        MUST(cu.cuStreamSynchronize(captured));
        read_device(device);
        WANT(captured_nodes ? !pinned[0] && memcmp(pinned, pinned + 1, SIZE - 1) == 0
                            : kit_is(pinned, SIZE, i + 1));
        launch(around);
        WANT(device_is(i + 1));
        MUST(cu.cuGraphDestroy(around));
    }
}

static void copy_batches(void *unused)
{
    CUdeviceptr to[] = {device, device + SIZE, device + 2 * SIZE};
    CUdeviceptr from[] = {(uintptr_t)host, (uintptr_t)host, (uintptr_t)host};
    size_t sizes[] = {4096, SIZE, SIZE}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};

    (void)unused;
    for (; !stop; copies++) {
        MUST(cu.cuMemcpyBatchAsync_v2(to, from, sizes, 3, &attributes, &first, 1, captured));
        kit_sleep_us(1500);
    }
}

static void batch_rounds(unsigned long rounds)
{
    captured = kit_stream();
    kit_complete_ring(device, host, SIZE, captured);
    kit_thread(context, copy_batches, NULL);
    await_copies(10);
    for (unsigned long round = 0; round < rounds; round++) {
        CUgraph graph = NULL;
        size_t nodes = 0;
        kit_sleep_us(rand() % 4000);
        MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
        kit_sleep_us(rand() % 2000);
        MUST(cu.cuStreamEndCapture(captured, &graph));
        MUST(cu.cuGraphGetNodes(graph, NULL, &nodes));
        MUST(cu.cuGraphDestroy(graph));
        if (nodes % 3)
            kit_fail("a graph has a part of a batch; nodes", (long)nodes);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    context = kit_start();
    host = kit_huge(SIZE);
    back = kit_huge(SIZE);
    pinned = kit_pinned(SIZE);
    device = kit_device(TURNS * SIZE);
    const unsigned long rounds = strtoul(argv[2], NULL, 10);
    if (strcmp(argv[1], "joined") == 0)
        join_rounds(rounds);
    else if (strcmp(argv[1], "slow") == 0)
        slow_rounds((unsigned)rounds);
    else if (strcmp(argv[1], "within") == 0)
        within_rounds((unsigned)rounds);
    else if (strcmp(argv[1], "batches") == 0)
        batch_rounds(rounds);
    else
        refuse_rounds(rounds);
    stop = true;
    kit_join();
    puts("done");
    fflush(stdout);
    _exit(0);
}
