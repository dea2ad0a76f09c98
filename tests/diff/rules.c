/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs, each of which tests one rule: rules NAME. They print the same with and without
 * the library.
 */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (48 * MIB)
#define FEW (6 * MIB)
#define PAGE ((size_t)4096)

static CUcontext context;

/* Copies until caches, helpers and the ring are warm. */
static void warm_up(size_t size)
{
    unsigned char *host = kit_pageable(size);
    CUdeviceptr device = kit_device(size);
    for (int i = 0; i < 4; i++) {
        MUST(cu.cuMemcpyHtoD_v2(device, host, size));
        MUST(cu.cuMemcpyDtoH_v2(host, device, size));
    }
    kit_await_ring();
}

/*
 * An asynchronous copy is on a blocked stream. Another thread launches a kernel on the same stream,
 * which must see all of the copy or nothing. The launch may wait until the copy's call has
 * returned, so a third thread, without CUDA calls, releases the stream.
 */
struct one {
    CUstream stream;
    CUdeviceptr device;
    unsigned char *host;
};

static void copy_one(void *data)
{
    struct one *one = data;
    MUST(cu.cuMemcpyHtoDAsync_v2(one->device, one->host, SIZE, one->stream));
}

static void *release_late(void *flag)
{
    kit_release_late(flag);
    return NULL;
}

static void one_operation(void)
{
    struct one one = {kit_stream(), kit_device(SIZE), kit_pageable(SIZE)};
    CUdeviceptr seen = kit_device(SIZE);
    unsigned char *back = kit_pageable(SIZE);
    uint32_t *flag = kit_pinned(64);
    pthread_t releaser;
    for (unsigned delay = 1000; delay < 40000; delay += 9000) {
        memset(one.host, 1, SIZE);
        MUST(cu.cuMemsetD8Async(one.device, 2, SIZE, one.stream));
        MUST(cu.cuStreamSynchronize(one.stream));
        kit_hold(one.stream, flag);
        kit_thread(context, copy_one, &one);
        kit_sleep_us(delay);
        WANT(pthread_create(&releaser, NULL, release_late, flag) == 0);
        MUST(cu.cuMemcpyDtoDAsync_v2(seen, one.device, SIZE, one.stream));
        kit_join();
        pthread_join(releaser, NULL);
        MUST(cu.cuStreamSynchronize(one.stream));
        MUST(cu.cuMemcpyDtoHAsync_v2(back, seen, SIZE, one.stream));
        for (size_t i = 0; i < SIZE; i += 4096)
            WANT(back[i] == back[0]);
    }
}

/* Signals to the process reach only the program's threads. */
static volatile pid_t taker, only;
static volatile unsigned taken;

static void take(int number)
{
    (void)number;
    taker = (pid_t)syscall(SYS_gettid);
    taken++;
}

static void *let_signals_in(void *data)
{
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    (void)data;
    only = (pid_t)syscall(SYS_gettid);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    for (;;)
        pause();
    return NULL;
}

static void signals(void)
{
    pthread_t thread;
    signal(SIGUSR1, take);
    pthread_create(&thread, NULL, let_signals_in, NULL);
    while (!only)
        kit_sleep_us(1000);
    kit_sleep_us(20000);
    for (unsigned i = 0; i < 200; i++) {
        const unsigned before = taken;
        kill(getpid(), SIGUSR1);
        while (taken == before)
            kit_sleep_us(50);
        WANT(taker == only);
    }
}

/* Blocks the signal before the driver or the library creates a thread. */
static void block_usr1(void)
{
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
}

static unsigned large_private_mappings(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/smaps", "re");
    unsigned long from = 0, to = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        char access[8], *flags = strstr(line, "VmFlags:");
        unsigned long a, b;
        if (sscanf(line, "%lx-%lx %7s", &a, &b, access) == 3)
            from = a, to = b;
        if (flags && strstr(flags, " dc") && strstr(flags, " wr") && to - from >= MIB)
            count++;
    }
    if (maps)
        fclose(maps);
    return count;
}

/*
 * Checks for large private memory that a child does not inherit. With the library, this is its
 * ring.
 */
static void not_inherited(void)
{
    printf("%u mappings are not for children\n", large_private_mappings());
}

/* If a small block was alone in its mapping and was freed, the next block there is zero. */
static void zero_again(void)
{
    for (size_t size = 100; size < 700000; size = size * 5 + 3) {
        unsigned char *block = kit_pinned(size);
        memset(block, 7, size);
        MUST(cu.cuMemFreeHost(block));
        block = kit_pinned(size);
        for (size_t i = 0; i < size; i++)
            WANT(block[i] == 0);
        MUST(cu.cuMemFreeHost(block));
    }
}

/*
 * After its transfers have begun, a copy meets an inaccessible first page of its destination. The
 * program's handler then permits access. The transfers may still write to the ring, so another
 * thread's copy must not use the same slots.
 */
static unsigned char *forbidden;

static void permit(int number, siginfo_t *info, void *unused)
{
    (void)number, (void)unused;
    if ((uintptr_t)info->si_addr - (uintptr_t)forbidden >= PAGE ||
        mprotect(forbidden, PAGE, PROT_READ | PROT_WRITE))
        _exit(9);
}

static void copy_both_ways(void *data)
{
    unsigned char *host = kit_pageable(FEW), *back = kit_pageable(FEW);
    CUdeviceptr device = kit_device(FEW);
    CUstream stream = kit_stream();
    for (unsigned i = 0; !__atomic_load_n((bool *)data, __ATOMIC_SEQ_CST); i++) {
        kit_fill(host, FEW, i);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, FEW, stream));
        MUST(cu.cuMemcpyDtoHAsync_v2(back, device, FEW, stream));
        WANT(kit_is(back, FEW, i));
    }
}

static void late_transfers(void)
{
    static bool over;
    struct sigaction action = {.sa_sigaction = permit, .sa_flags = SA_SIGINFO};
    CUdeviceptr device = kit_device(FEW);
    CUstream stream = kit_stream();
    unsigned char *host = kit_pageable(FEW);
    forbidden = kit_pageable(FEW);
    kit_fill(host, FEW, 99);
    MUST(cu.cuMemcpyHtoD_v2(device, host, FEW));
    sigaction(SIGSEGV, &action, NULL);
    kit_thread(context, copy_both_ways, &over);
    for (unsigned i = 0; i < 12; i++) {
        memset(forbidden, 0, FEW);
        mprotect(forbidden, PAGE, PROT_READ);
        MUST(cu.cuMemcpyDtoHAsync_v2(forbidden, device, FEW, stream));
        WANT(kit_is(forbidden, FEW, 99));
    }
    __atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
    kit_join();
}

/* The device faults while a copy from it waits. */
static void fault_ahead(void)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry trap()\n{\ntrap;\nret;\n}\n";
    CUmodule module;
    CUfunction trap;
    unsigned char *host = kit_pageable(SIZE);
    CUdeviceptr device = kit_device(SIZE);
    CUstream stream = kit_stream();
    uint32_t *flag = kit_pinned(64);
    MUST(cu.cuModuleLoadData(&module, text));
    MUST(cu.cuModuleGetFunction(&trap, module, "trap"));
    kit_hold(stream, flag);
    MUST(cu.cuLaunchKernel(trap, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    kit_thread(context, kit_release_late, flag);
    CUresult result = cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream);
    kit_join();
    printf("d2h %d, then %d\n", (int)result, (int)cu.cuStreamSynchronize(stream));
    printf("h2d %d\n", (int)cu.cuMemcpyHtoD_v2(device, host, SIZE));
}

/* The child and the parent share pinned memory. */
static void shared_with_children(void)
{
    for (size_t size = 4096; size <= 64 * MIB; size *= 128) {
        int status;
        unsigned char *block = kit_pinned(size);
        block[0] = 1;
        pid_t child = fork();
        if (child == 0) {
            block[size - 1] = 9;
            _exit(block[0]);
        }
        WANT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 1);
        WANT(block[size - 1] == 9);
        MUST(cu.cuMemFreeHost(block));
    }
}

/*
 * Wrong uses of pinned memory return the driver's errors, and the block is one range for the
 * driver.
 */
static void wrong_ways(void)
{
    const size_t size = 40 * MIB;
    CUdeviceptr device = kit_device(size);
    for (int round = 0; round < 3; round++) {
        unsigned char *block = kit_pinned(size), *start = NULL;
        uint64_t bytes = 0;
        MUST(cu.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      (uintptr_t)block + 9));
        MUST(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      (uintptr_t)block + size - 1));
        printf("%lu bytes from %ld\n", (unsigned long)bytes, (long)(start - block));
        printf("copy %d\n", (int)cu.cuMemcpyHtoDAsync_v2(device, block, size, CU_STREAM_LEGACY));
        printf("unregister %d\n", (int)cu.cuMemHostUnregister(block));
        printf("register %d\n", (int)cu.cuMemHostRegister_v2(block, size, 0));
        printf("register its inside %d\n", (int)cu.cuMemHostRegister_v2(block + 4096, 4096, 0));
        printf("free inside %d\n", (int)cu.cuMemFreeHost(block + 4096));
        printf("free as device's %d\n", (int)cu.cuMemFree_v2((uintptr_t)block));
        printf("free %d\n", (int)cu.cuMemFreeHost(block));
        printf("free again %d\n", (int)cu.cuMemFreeHost(block));
    }
}

/*
 * Imitates a write barrier. Another thread repeatedly protects pages, and the handler of SIGSEGV
 * permits the access. Each fault must be in the thread that copies.
 */
static struct {
    unsigned char *at;
    pid_t copying;
    volatile bool over, elsewhere;
    volatile unsigned faults;
} barrier;

enum { BARRIER = 256 << 10, BEHIND = 12 << 20 };

static void allow(int signal, siginfo_t *info, void *ignored)
{
    const uintptr_t at = (uintptr_t)info->si_addr / BARRIER * BARRIER;
    (void)signal, (void)ignored;
    barrier.faults++;
    if ((pid_t)syscall(SYS_gettid) != barrier.copying)
        barrier.elsewhere = true;
    if (at + BARRIER <= (uintptr_t)barrier.at || at >= (uintptr_t)barrier.at + BEHIND ||
        mprotect((void *)at, BARRIER, PROT_READ | PROT_WRITE))
        _exit(4);
}

static void protect(void *protection)
{
    for (unsigned i = 1; !barrier.over; i = i * 5 + 3) {
        unsigned char *at = barrier.at + i % (BEHIND / BARRIER) * BARRIER;
        mprotect(at, BARRIER, *(int *)protection);
        kit_sleep_us(50);
        mprotect(at, BARRIER, PROT_READ | PROT_WRITE);
    }
}

static void write_barrier(void)
{
    static int protections[] = {PROT_READ, PROT_NONE};
    const struct sigaction action = {.sa_sigaction = allow, .sa_flags = SA_SIGINFO};
    unsigned char *memory = kit_pageable(BEHIND + BARRIER), *other = kit_pageable(BEHIND);
    CUdeviceptr device = kit_device(BEHIND);
    barrier.at = (unsigned char *)(((uintptr_t)memory + BARRIER - 1) / BARRIER * BARRIER);
    barrier.copying = (pid_t)syscall(SYS_gettid);
    sigaction(SIGSEGV, &action, NULL);
    kit_await_ring();
    for (unsigned write = 0; write < 2; write++) {
        barrier.over = false;
        kit_thread(context, protect, &protections[!write]);
        for (unsigned i = 0; i < 40; i++) {
            kit_fill(write ? other : barrier.at, BEHIND, i);
            MUST(cu.cuMemcpyHtoD_v2(device, write ? other : barrier.at, BEHIND));
            MUST(cu.cuMemcpyDtoH_v2(write ? barrier.at : other, device, BEHIND));
            WANT(kit_is(write ? barrier.at : other, BEHIND, i));
        }
        barrier.over = true;
        kit_join();
    }
    WANT(!barrier.elsewhere && barrier.faults);
}

/* Copies from memory that consists of very many mappings. */
static void many_mappings(void)
{
    unsigned char *there = kit_pageable(FEW), *back = kit_pageable(FEW);
    CUdeviceptr device = kit_device(FEW);
    kit_await_ring();
    fputs("many mappings from here on\n", stderr);
    for (size_t at = 0; at < FEW; at += 2 * PAGE)
        mprotect(back + at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (unsigned i = 0; i < 4; i++) {
        kit_fill(there, FEW, i);
        kit_fill(back, FEW, i + 1);
        MUST(cu.cuMemcpyHtoD_v2(device, there, FEW));
        MUST(cu.cuMemcpyDtoH_v2(back, device, FEW));
        WANT(kit_is(back, FEW, i));
        MUST(cu.cuMemcpyHtoD_v2(device, back, FEW));
        MUST(cu.cuMemcpyDtoH_v2(there, device, FEW));
        WANT(kit_is(there, FEW, i));
    }
}

/* Large copies, and copies behind work that takes longer than the copies. */
static CUfunction spin_kernel(void)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry spin(.param .u64 ns)\n{\nret;\n}\n";
    CUmodule module;
    CUfunction spin;
    MUST(cu.cuModuleLoadData(&module, text));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    return spin;
}

static void slow_staging(void)
{
    uint64_t ns = 5000000;
    void *parameters[] = {&ns};
    unsigned char *host = kit_pageable(32 * MIB);
    CUdeviceptr device = kit_device(32 * MIB);
    CUfunction spin = spin_kernel();
    kit_await_ring();
    for (unsigned i = 0; i < 40; i++) {
        MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, parameters, NULL));
        MUST(cu.cuMemcpyHtoD_v2(device, host, 4 * MIB));
        if (i < 20)
            MUST(cu.cuMemcpyHtoD_v2(device, host, 32 * MIB));
    }
}

/* The stream never becomes idle, as in a training loop that runs ahead of the GPU. */
static void slow_queued_staging(void)
{
    uint64_t ns = 30000000;
    void *parameters[] = {&ns};
    unsigned char *host = kit_pageable(2 * MIB);
    CUdeviceptr device = kit_device(2 * MIB);
    CUfunction spin = spin_kernel();
    CUstream stream = kit_stream();
    kit_await_ring();
    for (unsigned i = 0; i < 60; i++) {
        MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
        MUST(cu.cuMemcpyAsync(device, (CUdeviceptr)(uintptr_t)host, 2 * MIB, stream));
    }
    MUST(cu.cuStreamSynchronize(stream));
}

/* A real-time thread does not wait for ordinary threads. */
static void real_time(void)
{
    const struct sched_param lowest = {.sched_priority = 1};
    unsigned char *there = kit_pageable(BEHIND), *back = kit_pageable(BEHIND);
    CUdeviceptr device = kit_device(BEHIND);
    kit_await_ring();
    fputs("real-time from here on\n", stderr);
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest))
        exit(77);
    for (unsigned i = 0; i < 20; i++) {
        kit_fill(there, BEHIND, i);
        MUST(cu.cuMemcpyHtoD_v2(device, there, BEHIND));
        MUST(cu.cuMemcpyDtoH_v2(back, device, BEHIND));
        WANT(kit_is(back, BEHIND, i));
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"one-operation", one_operation},
    {"signals", signals},
    {"not-inherited", not_inherited},
    {"zero-again", zero_again},
    {"late-transfers", late_transfers},
    {"fault-ahead", fault_ahead},
    {"shared-with-children", shared_with_children},
    {"wrong-ways", wrong_ways},
    {"write-barrier", write_barrier},
    {"real-time", real_time},
    {"many-mappings", many_mappings},
    {"slow-staging", slow_staging},
    {"slow-queued-staging", slow_queued_staging},
};

int main(int argc, char **argv)
{
    block_usr1();
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (argc == 2 && strcmp(argv[1], programs[i].name) == 0) {
            context = kit_start();
            if (strcmp(argv[1], "zero-again") != 0)
                warm_up(SIZE);
            programs[i].run();
            puts("done");
            fflush(stdout);
            _exit(0);
        }
    return 2;
}
