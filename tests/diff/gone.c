/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread destroys the stream for which another thread's copy waits: gone h2d|d2h|call|met|crowd|fault|late. Prints
 * "done" if the copy is made after the stream's work, and later copies, too. call: a signal handler makes a call inside the
 * copy, and another stream is destroyed, too. met: after the wait, a third thread is inside a call on
 * the stream, so the driver makes the copy. crowd: other threads have all records of their own that the library gives.
 * fault: the stream is destroyed while the program's handler of a fault runs, in the middle of the copy. late: that handler
 * runs for longer than the other thread waits.
 */
#include "kit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define ROUNDS 4

static CUdeviceptr device;
static CUstream stream;
static CUfunction spin;
static unsigned char *host;
static pid_t copier;
static CUcontext context;
static sem_t there;

static void launch(void)
{
    unsigned long long ns = 200000000;
    void *arguments[] = {&ns};

    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void wait_and_copy(void *back)
{
    launch();
    MUST(cu.cuMemsetD8Async(device, 2, SIZE, stream));
    __atomic_store_n(&copier, gettid(), __ATOMIC_SEQ_CST);
    MUST(back ? cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream)
              : cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
}

/* The stream is destroyed during this call, if the call takes long. */
static void meet(void *event)
{
    cu.cuStreamWaitEvent(stream, event, 0);
}

static CUevent of_handler;
static CUstream others[2];

static void on_signal(int number)
{
    (void)number;
    MUST(cu.cuEventRecord(of_handler, others[0]));
}

static void interrupt_copy(void)
{
    const struct sigaction action = {.sa_handler = on_signal};

    WANT(sigaction(SIGUSR1, &action, NULL) == 0);
    WANT(tgkill(getpid(), copier, SIGUSR1) == 0);
    kit_sleep_us(30000);
}

static void round_of(bool back, CUevent met)
{
    static bool yes = true;

    stream = kit_stream();
    for (unsigned i = 0; of_handler && i < 2; i++)
        others[i] = kit_stream();
    for (unsigned i = 0; i < 8; i++) { /* the library stages the next copies */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
    memset(host, 1, SIZE);
    copier = 0;
    kit_thread(context, wait_and_copy, back ? &yes : NULL);
    while (!__atomic_load_n(&copier, __ATOMIC_SEQ_CST))
        kit_sleep_us(1000);
    for (unsigned i = 0; i < 100 && !kit_sleeps(copier); i++) /* a driver may wait without sleep */
        kit_sleep_us(1000);
    kit_sleep_us(30000);
    if (of_handler)
        interrupt_copy();
    if (met)
        kit_thread(context, meet, met);
    while (met && cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        kit_sleep_us(1000);
    kit_sleep_us(met ? 30000 : 0);
    MUST(cu.cuStreamDestroy_v2(stream));
    if (of_handler)
        MUST(cu.cuStreamDestroy_v2(others[1]));
    kit_join();
    MUST(cu.cuCtxSynchronize());
    if (!back)
        MUST(cu.cuMemcpyDtoH_v2(host, device, SIZE));
    for (size_t at = 0; at < SIZE; at += 4096)
        WANT(host[at] == (back ? 2 : 1));
}

static volatile bool faulted;
static unsigned handled_us = 300000; /* another thread waits less for a copy without progress */

static void on_fault(int number, siginfo_t *info, void *unused)
{
    void *const page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);

    (void)number, (void)unused;
    faulted = true;
    kit_sleep_us(handled_us);
    WANT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void copy_halves(void *half)
{
    const size_t bytes = (size_t)half;
    CUdeviceptr to[] = {device, device + bytes},
                from[] = {(uintptr_t)host, (uintptr_t)host + bytes};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    size_t sizes[] = {bytes, bytes}, first = 0;

    MUST(cu.cuMemcpyBatchAsync_v2(to, from, sizes, 2, &attributes, &first, 1, stream));
}

static void copy_bytes(void *bytes)
{
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, (size_t)bytes, stream));
}

static void fault_at(size_t offset, size_t bytes, bool halves, bool busy)
{
    unsigned char *const result = kit_pageable(bytes);

    stream = kit_stream();
    memset(host, 1, bytes);
    MUST(cu.cuMemsetD8_v2(device, 2, bytes));
    MUST(cu.cuCtxSynchronize());
    if (busy)
        launch();
    faulted = false;
    WANT(mprotect(host + offset, 4096, PROT_NONE) == 0);
    kit_thread(context, halves ? copy_halves : copy_bytes, (void *)(halves ? bytes / 2 : bytes));
    while (!faulted)
        kit_sleep_us(1000);
    MUST(cu.cuStreamDestroy_v2(stream));
    kit_join();
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemcpyDtoH_v2(result, device, bytes));
    for (size_t at = 0; at < bytes; at++)
        WANT(result[at] == 1);
}

static void fault(bool late)
{
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

    kit_complete_ring(device, host, SIZE, kit_stream());
    WANT(sigaction(SIGSEGV, &action, NULL) == 0);
    if (late) {
        handled_us = 1500000;
        fault_at(0, MIB, false, true);
    }
    for (unsigned i = 0; i < ROUNDS && !late; i++) {
        fault_at(0, SIZE, i % 2, false);
        fault_at(0, MIB, false, i % 2);
        fault_at(MIB - 4096, MIB, false, false);
        fault_at(MIB, 2 * MIB, i % 2, false);
        fault_at(0, 4 * MIB, false, true);
    }
}

static void *stay(void *unused)
{
    MUST(cu.cuCtxSetCurrent(context));
    sem_post(&there);
    pause();
    return unused;
}

static void crowd(void)
{
    pthread_t thread;

    for (unsigned i = 0; i < 70; i++) {
        WANT(pthread_create(&thread, NULL, stay, NULL) == 0);
        sem_wait(&there);
    }
}

int main(int argc, char **argv)
{
    CUmodule module;
    CUevent event;

    if (argc != 2)
        return 2;
    context = kit_start();
    MUST(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n.address_size 64\n"
                                      ".visible .entry spin(.param .u64 ns) { ret; }\n"));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    device = kit_device(SIZE);
    host = kit_pageable(SIZE);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (strcmp(argv[1], "crowd") == 0)
        crowd();
    if (strcmp(argv[1], "call") == 0)
        of_handler = event;
    const bool late = strcmp(argv[1], "late") == 0, faults = late || strcmp(argv[1], "fault") == 0;
    if (faults)
        fault(late);
    for (unsigned i = 0; i < ROUNDS && !faults; i++)
        round_of(strcmp(argv[1], "h2d") != 0, strcmp(argv[1], "met") == 0 ? event : NULL);
    puts("done");
    fflush(stdout);
    _exit(0);
}
