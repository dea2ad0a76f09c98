/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_time MODE MS: loops whose GPU time is known.
 *   idle    one short kernel, then sleeps
 *   compute one short kernel, then computes
 *   busy    one kernel that runs for the whole time
 *   read    one short kernel, then reads from an empty pipe
 *   races   four threads create, use and destroy streams, capture, and reset their own contexts
 *   forks   like idle; then a forked child submits work and ends
 *   own     like idle, on the per-thread stream
 *   ended   like idle, after a thread has ended inside a copy
 *   lost    like idle, after streams were destroyed during their captures
 *   reset   like idle, after the device was reset during captures
 * Exit code 1 and a line if a call of the driver fails.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../bench/spin_ptx.h"

static void must(CUresult result, const char *call, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("line %d: %s answered %d\n", line, call, (int)result);
    exit(1);
}
#define MUST(call) must(call, #call, __LINE__)

static uint64_t now_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000u + (uint64_t)at.tv_nsec / 1000000u;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec at = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&at, NULL);
}

static CUfunction find_kernel(void)
{
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData(&module, spin_ptx));
    MUST(cuModuleGetFunction(&function, module, "spin"));
    return function;
}

static void spin(CUfunction function, CUstream stream, uint64_t us)
{
    uint64_t ns = us * 1000;
    void *params[] = {&ns};
    errno = 77;
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    if (errno != 77) {
        printf("errno is %d\n", errno);
        exit(1);
    }
}

static void capture_in(CUfunction function, CUstream stream, CUstream other, CUevent event,
                       unsigned mode)
{
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;

    MUST(cuStreamBeginCapture_v2(stream, mode));
    spin(function, stream, 0);
    MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(other, event, 0)); /* a forked stream */
    spin(function, other, 0);
    MUST(cuEventRecord(event, other));
    MUST(cuStreamWaitEvent(stream, event, 0));
    spin(function, stream, 0);
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphGetNodes(graph, NULL, &nodes));
    if (nodes != 3) {
        printf("%zu nodes\n", nodes);
        exit(1);
    }
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

static uint64_t until;
static unsigned rounds;

static void *race(void *closure)
{
    unsigned seed = (unsigned)(uintptr_t)closure;

    while (now_ms() < until) {
        CUcontext context;
        CUevent event;
        MUST(cuCtxCreate_v2(&context, 0, 0));
        CUfunction function = find_kernel();
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        for (unsigned i = 0; i < 8; i++) {
            CUstream stream, other;
            seed = seed * 1664525 + 1013904223;
            MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
            spin(function, stream, seed >> 24);
            spin(function, NULL, 1);
            spin(function, CU_STREAM_PER_THREAD, 1);
            if (seed & 0x10000)
                capture_in(function, stream, other, event,
                           seed & 0x20000 ? CU_STREAM_CAPTURE_MODE_RELAXED
                                          : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
            MUST(cuStreamDestroy_v2(stream));
            MUST(cuStreamDestroy_v2(other));
            __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
        }
        MUST(cuEventDestroy_v2(event));
        MUST(cuCtxDestroy_v2(context));
    }
    return NULL;
}

static void run_races(void)
{
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, race, (void *)(i + 1)))
            exit(1);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    printf("%s\n", rounds ? "rounds" : "no round");
}

/* The test delays the copy, so that a signal ends the thread inside it. */
static void end_thread(int number)
{
    (void)number;
    pthread_exit(PTHREAD_CANCELED);
}

static void *copy_slowly(void *context)
{
    static char host[4096];
    CUdeviceptr at;
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&at, sizeof host));
    MUST(cuMemcpyHtoD_v2(at, host, sizeof host));
    return NULL;
}

static void end_inside_copy(CUcontext context)
{
    pthread_t thread;
    void *result;
    signal(SIGUSR1, end_thread);
    if (pthread_create(&thread, NULL, copy_slowly, context))
        exit(1);
    sleep_ms(500);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    printf("%s\n", result == PTHREAD_CANCELED ? "ended inside" : "returned");
}

/* More captures than the library has slots for begin and end. Others are lost with their stream. */
static void lose_captures(bool by_reset)
{
    CUstream stream[40];
    CUgraph graph;

    for (unsigned i = 0; i < 40; i++) {
        MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        if (i >= 8)
            MUST(cuStreamBeginCapture_v2(stream[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    for (unsigned i = 8; i < 40; i++)
        MUST(cuStreamEndCapture(stream[i], &graph));
    for (unsigned i = 0; i < 8; i++)
        MUST(cuStreamBeginCapture_v2(stream[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < 8 && !by_reset; i++)
        MUST(cuStreamDestroy_v2(stream[i]));
}

static CUfunction reset_device(void)
{
    CUcontext context;
    MUST(cuDevicePrimaryCtxReset_v2(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    return find_kernel();
}

static void fork_child(CUfunction function)
{
    const pid_t child = fork();
    if (child == 0) {
        CUstream stream = NULL;
        uint64_t ns = 0;
        void *params[] = {&ns};
        const int launched =
            (int)cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
        _exit(launched == CUDA_ERROR_NOT_INITIALIZED ? 0 : 9);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    CUcontext context;
    int ends[2];
    const char *mode = argv[1];
    const unsigned ms = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1000;

    until = now_ms() + ms;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    CUfunction function = find_kernel();
    spin(function, strcmp(mode, "own") ? NULL : CU_STREAM_PER_THREAD,
         strcmp(mode, "busy") ? 1 : ms * 1000);
    if (strcmp(mode, "ended") == 0) {
        end_inside_copy(context);
        sleep_ms(ms);
    } else if (strcmp(mode, "lost") == 0 || strcmp(mode, "reset") == 0) {
        lose_captures(strcmp(mode, "reset") == 0);
        function = strcmp(mode, "reset") == 0 ? reset_device() : function;
        spin(function, NULL, 1);
        sleep_ms(ms);
    } else if (strcmp(mode, "busy") == 0)
        MUST(cuCtxSynchronize());
    else if (strcmp(mode, "compute") == 0)
        for (until = now_ms() + ms; now_ms() < until;)
            ;
    else if (strcmp(mode, "races") == 0)
        run_races();
    else if (strcmp(mode, "read") == 0 && pipe(ends) == 0) {
        char byte;
        if (fork() == 0) {
            sleep_ms(ms);
            _exit(0);
        }
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0)
            return 1;
    } else {
        sleep_ms(ms);
        if (strcmp(mode, "forks") == 0)
            fork_child(function);
    }
    return 0;
}
