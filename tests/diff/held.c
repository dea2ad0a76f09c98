/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other threads and streams see of a copy that is cut into several DMAs: held CASE [ROUNDS]. Each case prints "done" if
 * they see one operation.
 *
 * after-legacy, after-legacy-back: earlier work of the legacy stream, before a copy on a blocking stream, while another
 * thread captures. wait-event: a wait for an event while a capture is open. event-late: the copy's events are slow, and
 * the other thread's work waits for the copy's call. beside, into: a slow call of another thread, begun before the copy
 * or during it. slow: another thread's call while each DMA takes long. solids: a batch of 3D copies of another thread.
 * destroy: another thread destroys the stream. lost: a copy whose hold another thread has ended. lost-batch: a member
 * of a batch after that. fault-batch: the other thread submits while it holds a lock that the handler of SIGSEGV needs,
 * in a batch. fault-after-legacy: as after-legacy, with a slow handler of SIGSEGV in the middle of the copy.
 * fault-capture: the other thread captures the stream while such a handler runs. fault-capture-small-after: the same,
 * behind work of the legacy stream. fault-small-after, window-small-after: a copy that the driver does not let wait, in
 * front of which the legacy stream waits for its thread. The handler is slow, or permits only a few pages at a time.
 * captures-small-after: such copies beside captures of another thread. captures-pair-after: beside captures, a copy
 * waits for the legacy stream, and that for another thread's copy. fault-pair-after, fault-pair-small-after: the same
 * after a fault in the first copy. creates-after, registers-after: a copy waits in the driver for what another thread
 * does after its own copies. handler: the handler of SIGSEGV, in a copy on another stream, reads what this thread
 * copies.
 */
#include "kit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define ROUNDS 10

static CUcontext context;
static CUdeviceptr device;
static unsigned char *host;
static CUstream stream;
static CUfunction spin;
static volatile bool stop;
static sem_t returned, faulted, fills, copies;

static void prepare(unsigned flags)
{
    CUmodule module;
    MUST(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n.address_size 64\n"
                                      ".visible .entry spin(.param .u64 ns) { ret; }\n"));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    MUST(cu.cuStreamCreate(&stream, flags));
    device = kit_device(SIZE);
    host = kit_pageable(SIZE);
    memset(host, 1, SIZE);
    for (unsigned i = 0; i < 4; i++) { /* from now on, the ring exists */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
}

static void launch(CUstream on, unsigned long long ns)
{
    void *arguments[] = {&ns};
    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, arguments, NULL));
}

static void want_all(unsigned char value)
{
    for (size_t at = 0; at < SIZE; at += 4096)
        if (host[at] != value)
            kit_fail("the copy is not in order at", (long)at);
}

static void capture_often(void *unused)
{
    CUstream own = kit_stream();
    CUgraph graph;

    (void)unused;
    while (!stop) {
        MUST(cu.cuStreamBeginCapture_v2(own, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cu.cuStreamEndCapture(own, &graph));
        MUST(cu.cuGraphDestroy(graph));
        kit_sleep_us(2000);
    }
}

static void after_legacy(bool back, unsigned rounds)
{
    kit_thread(context, capture_often, NULL);
    for (unsigned i = 0; i < rounds; i++) {
        memset(host, 9, SIZE);
        MUST(cu.cuMemsetD8_v2(device, 1, SIZE));
        MUST(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
        launch(CU_STREAM_LEGACY, 20000000);
        MUST(cu.cuMemsetD8Async(device, 2, SIZE, CU_STREAM_LEGACY));
        if (!back)
            MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        else
            MUST(cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream));
        MUST(cu.cuStreamSynchronize(stream)); /* a wait for the context is refused in a capture */
        MUST(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
        if (!back)
            MUST(cu.cuMemcpyDtoH_v2(host, device, SIZE));
        want_all(back ? 2 : 9);
    }
    stop = true;
    kit_join();
}

/* wait-event, event-late */

static CUevent event;
static volatile bool over; /* the copy's call has returned */

static void wait_for_copy(void *unused)
{
    (void)unused;
    sem_wait(&returned);
}

static void put_behind(void *is_event)
{
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    if (is_event)
        MUST(cu.cuStreamWaitEvent(stream, event, 0));
    else
        MUST(cu.cuLaunchHostFunc(stream, wait_for_copy, NULL));
}

static void behind(bool is_event)
{
    static bool yes = true;
    CUstream own = kit_stream(), captured = kit_stream();

    sem_init(&returned, 0, 0);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (is_event)
        MUST(cu.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < (is_event ? ROUNDS : 2); i++) {
        if (is_event) {
            MUST(cu.cuLaunchHostFunc(own, wait_for_copy, NULL));
            MUST(cu.cuEventRecord(event, own));
        }
        over = false;
        kit_thread(context, put_behind, is_event ? &yes : NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        over = true;
        sem_post(&returned);
        kit_join();
        MUST(cu.cuStreamSynchronize(stream));
    }
}

/* solids */

static CUdeviceptr snapshot;

static void copy_solids(void *unused)
{
    CUDA_MEMCPY3D_BATCH_OP solid = {
        .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = device},
        .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = snapshot},
        .extent = {.width = SIZE, .height = 1, .depth = 1},
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    (void)unused;
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    MUST(cu.cuMemcpy3DBatchAsync_v2(1, &solid, 0, stream));
}

static void solids(void)
{
    snapshot = kit_device(SIZE);
    for (unsigned i = 2; i < ROUNDS; i++) {
        memset(host, (int)i, SIZE);
        over = false;
        kit_thread(context, copy_solids, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        over = true;
        kit_join();
        MUST(cu.cuMemcpyDtoHAsync_v2(host, snapshot, SIZE, stream));
        want_all(host[0]);
    }
}

/* beside, into */

/*
 * With slow calls (SIM_DELAY), the other thread's call begins before the copy or during its first
 * DMAs, and fills the buffer in the middle of the copy.
 */
static void fill(void *first)
{
    if (first) {
        sem_post(&fills);
    } else {
        sem_wait(&copies);
        kit_sleep_us(10000);
    }
    MUST(cu.cuMemsetD32Async(device, 0x7f7f7f7f, SIZE / 4, stream));
}

static void fill_beside(bool first, unsigned rounds)
{
    static bool yes = true;

    sem_init(&fills, 0, 0);
    sem_init(&copies, 0, 0);
    for (unsigned i = 0; i < rounds; i++) {
        memset(host, (int)i, SIZE);
        kit_thread(context, fill, first ? &yes : NULL);
        if (first) {
            sem_wait(&fills);
            kit_sleep_us(10000);
        } else {
            sem_post(&copies);
        }
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        kit_join();
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream));
        want_all(host[0]);
    }
}

/* destroy */

static void destroy_busy(void *unused)
{
    (void)unused;
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    MUST(cu.cuStreamDestroy_v2(stream));
}

static void destroy(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(host, (int)i + 2, SIZE);
        over = false;
        kit_thread(context, destroy_busy, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        over = true;
        kit_join();
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuMemcpyDtoH_v2(host, device, SIZE));
        want_all((unsigned char)(i + 2));
        stream = kit_stream();
    }
}

/* lost-batch, fault-batch */

#define PART (SIZE / 4)
static pthread_t copier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned asleep_us, later_us;

static void sleep_long(int number)
{
    (void)number;
    kit_sleep_us(asleep_us);
}

/* Interrupts the copying thread for longer than a call waits for a hold. */
static void interrupt(void)
{
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    kit_sleep_us(later_us);
    pthread_kill(copier, SIGUSR1);
}

static void submit_after_signal(void *unused)
{
    (void)unused;
    interrupt();
    launch(stream, 400000000);
}

static void wait_after_signal(void *unused)
{
    (void)unused;
    interrupt();
    MUST(cu.cuLaunchHostFunc(stream, wait_for_copy, NULL));
}

static void on_fault(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)info, (void)unused;
    sem_post(&faulted);
    pthread_mutex_lock(&lock);
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void submit_locked(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    sem_post(&returned);
    sem_wait(&faulted);
    kit_sleep_us(20000);
    MUST(cu.cuMemsetD8Async(device + SIZE - MIB, 1, MIB, stream));
    pthread_mutex_unlock(&lock);
}

/* A batch of two members. Afterwards the same thread looks at the second one. */
static void batch_beside(void (*submit)(void *), unsigned value)
{
    CUdeviceptr to[] = {device, device + SIZE / 2}, copy = kit_device(PART);
    CUdeviceptr from[] = {(uintptr_t)host, (uintptr_t)host + SIZE / 2};
    size_t sizes[] = {SIZE / 2, PART}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    unsigned char *const back = kit_pinned(PART);

    memset(host, (int)value, SIZE);
    over = false;
    kit_thread(context, submit, NULL);
    if (submit == submit_locked) {
        sem_wait(&returned);
        mprotect(host + SIZE / 4, 4096, PROT_NONE);
    }
    MUST(cu.cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &first, 1, stream));
    over = true;
    MUST(cu.cuMemcpyDtoDAsync_v2(copy, device + SIZE / 2, PART, stream));
    MUST(cu.cuMemcpyDtoHAsync_v2(back, copy, PART, stream));
    MUST(cu.cuStreamSynchronize(stream));
    kit_join();
    WANT(back[0] == value && back[PART - 1] == value);
}

/* The copy's other DMAs must not wait for work that waits for the copy. */
static void lost(void)
{
    later_us = 20000; /* not between a DMA and its event: see Known limits in docs/transfers.md */
    kit_thread(context, wait_after_signal, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
    over = true;
    sem_post(&returned);
    kit_join();
}

static void on_slow_fault(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)info, (void)unused;
    sem_post(&faulted);
    kit_sleep_us(200000);
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
}

static void record_after_fault(void *unused)
{
    (void)unused;
    sem_wait(&faulted);
    MUST(cu.cuEventRecord(event, stream));
}

static void work_on_legacy(void)
{
    launch(CU_STREAM_LEGACY, 600000000);
    MUST(cu.cuMemsetD8Async(device, 2, SIZE, CU_STREAM_LEGACY));
}

/*
 * The copy's first DMAs wait for the legacy stream. The handler takes so long that another thread
 * ends the hold.
 */
static void fault_after_legacy(void)
{
    const struct sigaction fault = {.sa_sigaction = on_slow_fault, .sa_flags = SA_SIGINFO};

    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &fault, NULL);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    memset(host, 9, SIZE);
    mprotect(host + SIZE / 4, 4096, PROT_NONE);
    work_on_legacy();
    kit_thread(context, record_after_fault, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
    kit_join();
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemcpyDtoH_v2(host, device, SIZE));
    want_all(9);
}

static void capture_after_fault(void *unused)
{
    CUgraph graph;
    size_t nodes = 1;

    (void)unused;
    sem_wait(&faulted);
    MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    sem_wait(&returned);
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphGetNodes(graph, NULL, &nodes));
    WANT(nodes == 0);
}

/* Another thread captures the stream while the handler runs. No part of the copy is captured. */
static void fault_capture(bool is_small)
{
    const struct sigaction fault = {.sa_sigaction = on_slow_fault, .sa_flags = SA_SIGINFO};
    const size_t bytes = is_small ? 2 * MIB : SIZE;

    sem_init(&faulted, 0, 0);
    sem_init(&returned, 0, 0);
    sigaction(SIGSEGV, &fault, NULL);
    memset(host, 9, SIZE);
    mprotect(host + bytes / 4, 4096, PROT_NONE);
    if (is_small)
        work_on_legacy();
    kit_thread(context, capture_after_fault, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, bytes, stream));
    sem_post(&returned);
    kit_join();
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemcpyDtoH_v2(host, device, bytes));
    want_all(9);
}

static void on_window_fault(int number, siginfo_t *info, void *unused)
{
    char *const page = (char *)((uintptr_t)info->si_addr & ~UINT64_C(4095));

    (void)number, (void)unused;
    mprotect(host + MIB, MIB, PROT_NONE);
    mprotect(page, 16 * 4096, PROT_READ | PROT_WRITE);
}

/* The copy's call returns, although the work before its DMAs waits for what the thread does next. */
static void fault_small(bool window)
{
    const struct sigaction fault = {.sa_sigaction = window ? on_window_fault : on_slow_fault,
                                    .sa_flags = SA_SIGINFO};
    uint32_t *const gate = kit_pinned(sizeof(*gate));

    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &fault, NULL);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    memset(host, 9, SIZE);
    mprotect(host + MIB, window ? MIB : 4096, PROT_NONE);
    kit_hold(CU_STREAM_LEGACY, gate);
    if (!window)
        kit_thread(context, record_after_fault, NULL);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, 2 * MIB, stream));
    kit_release(gate);
    kit_join();
    MUST(cu.cuCtxSynchronize());
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
    MUST(cu.cuMemcpyDtoH_v2(host, device, 2 * MIB));
    want_all(9);
}

/* The same while another thread often captures a stream of its own. */
static void small_beside_captures(unsigned rounds)
{
    uint32_t *const gate = kit_pinned(sizeof(*gate));

    kit_thread(context, capture_often, NULL);
    for (unsigned i = 0; i < rounds; i++) {
        memset(host, (int)i + 2, SIZE);
        kit_hold(CU_STREAM_LEGACY, gate);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, 2 * MIB, stream));
        kit_release(gate);
        MUST(cu.cuStreamSynchronize(stream));
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, 2 * MIB, stream));
        want_all((unsigned char)(i + 2));
    }
    stop = true;
    kit_join();
}

static void copy_behind(void *bytes)
{
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, *(const size_t *)bytes, stream));
}

/* is_small: a copy that the driver does not let wait, so the same thread goes on after it. */
static void pair_beside_captures(unsigned rounds, bool is_small, bool faults)
{
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    size_t bytes = is_small ? 2 * MIB : SIZE;
    uint32_t *const gates = kit_pinned(rounds * sizeof(*gates));
    unsigned char *const back = kit_huge(SIZE);
    const CUdeviceptr from = kit_device(SIZE);
    const CUstream own = kit_stream();

    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &fault, NULL);
    kit_thread(context, capture_often, NULL);
    for (unsigned i = 0; i < rounds; i++) {
        if (faults)
            mprotect(host + MIB, 4096, PROT_NONE);
        kit_hold(CU_STREAM_LEGACY, &gates[i]);
        if (is_small)
            copy_behind(&bytes);
        else
            kit_thread(context, copy_behind, &bytes);
        kit_sleep_us(10000);
        MUST(cu.cuMemcpyDtoHAsync_v2(back, from, SIZE, own));
        kit_release(&gates[i]);
        MUST(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
    }
    stop = true;
    kit_join();
}

/*
 * NVIDIA's driver creates no event and registers nothing while a pageable copy waits in it. The copy
 * that waits is below GPUFEED_STAGE_MIN.
 */
static void creates(unsigned rounds, unsigned before)
{
    uint32_t *const gates = kit_pinned(rounds * sizeof(*gates));
    unsigned char *const back = kit_huge(2 * SIZE);
    const CUdeviceptr from = kit_device(2 * SIZE);
    const CUstream own = kit_stream();
    size_t bytes = SIZE;

    for (unsigned i = 0; i < before; i++) { /* the first one requests the ring */
        MUST(cu.cuMemcpyHtoDAsync_v2(from, back, 2 * SIZE, own));
        MUST(cu.cuStreamSynchronize(own));
    }
    for (unsigned i = 0; i < rounds; i++) {
        kit_hold(CU_STREAM_LEGACY, &gates[i]);
        kit_thread(context, copy_behind, &bytes);
        kit_sleep_us(20000);
        MUST(cu.cuMemcpyDtoHAsync_v2(back, from, 2 * SIZE, own));
        MUST(cu.cuMemcpyHtoDAsync_v2(from, back, 2 * SIZE, own));
        kit_release(&gates[i]);
        kit_join();
    }
}

static void on_reading_fault(int number, siginfo_t *info, void *unused)
{
    char *const page = (char *)((uintptr_t)info->si_addr & ~UINT64_C(4095));

    (void)number, (void)unused;
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    MUST(cu.cuMemcpyDtoDAsync_v2(snapshot, device, SIZE, stream));
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void fault_elsewhere(void *unused)
{
    unsigned char *const from = kit_pageable(SIZE);
    const CUdeviceptr to = kit_device(SIZE);

    (void)unused;
    mprotect(from + 4 * MIB, 4096, PROT_NONE);
    MUST(cu.cuMemcpyHtoDAsync_v2(to, from, SIZE, kit_stream()));
}

static void handler(void)
{
    const struct sigaction fault = {.sa_sigaction = on_reading_fault, .sa_flags = SA_SIGINFO};

    sigaction(SIGSEGV, &fault, NULL);
    snapshot = kit_device(SIZE);
    for (unsigned i = 2; i < ROUNDS; i++) {
        memset(host, (int)i, SIZE);
        over = false;
        kit_thread(context, fault_elsewhere, NULL);
        kit_sleep_us(20000); /* until the thread is in its handler */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        over = true;
        kit_join();
        MUST(cu.cuMemcpyDtoHAsync_v2(host, snapshot, SIZE, stream));
        want_all(host[0]);
    }
}

static void with_signals(const char *name)
{
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO},
                           slow = {.sa_handler = sleep_long, .sa_flags = SA_RESTART};

    copier = pthread_self();
    asleep_us = 2000000; /* longer than a call waits while the copy issues a DMA or waits for one */
    sem_init(&faulted, 0, 0);
    sem_init(&returned, 0, 0);
    sigaction(SIGUSR1, &slow, NULL);
    if (strcmp(name, "fault-batch") == 0)
        sigaction(SIGSEGV, &fault, NULL);
    if (strcmp(name, "lost") == 0)
        lost();
    else
        batch_beside(strcmp(name, "lost-batch") == 0 ? submit_after_signal : submit_locked, 7);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
    context = kit_start();
    prepare(strstr(argv[1], "after") ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    if (strncmp(argv[1], "after-legacy", 12) == 0)
        after_legacy(strstr(argv[1], "back"), rounds);
    else if (strcmp(argv[1], "wait-event") == 0 || strcmp(argv[1], "event-late") == 0)
        behind(argv[1][0] == 'w');
    else if (strcmp(argv[1], "solids") == 0)
        solids();
    else if (strstr("beside into slow", argv[1]))
        fill_beside(argv[1][0] == 'b', rounds);
    else if (strcmp(argv[1], "destroy") == 0)
        destroy();
    else if (strcmp(argv[1], "fault-after-legacy") == 0)
        fault_after_legacy();
    else if (strncmp(argv[1], "fault-capture", 13) == 0)
        fault_capture(strstr(argv[1], "small"));
    else if (strcmp(argv[1], "captures-small-after") == 0)
        small_beside_captures(rounds);
    else if (strstr(argv[1], "-pair-"))
        pair_beside_captures(rounds, strstr(argv[1], "small"), argv[1][0] == 'f');
    else if (strcmp(argv[1], "creates-after") == 0 || strcmp(argv[1], "registers-after") == 0)
        creates(ROUNDS, argv[1][0] == 'c' ? 4 : 1);
    else if (strcmp(argv[1], "handler") == 0)
        handler();
    else if (strstr(argv[1], "-small-"))
        fault_small(argv[1][0] == 'w');
    else if (strstr(argv[1], "lost") || strcmp(argv[1], "fault-batch") == 0)
        with_signals(argv[1]);
    else
        return 2;
    puts("done");
    fflush(stdout);
    _exit(0);
}
