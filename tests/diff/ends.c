/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a process at a random moment while threads copy and allocate pinned memory. Its exit code
 * must be that of the chosen way to end. `ends WAY SEED` ends one process. `ends all FIRST COUNT`
 * runs many, each in a separate process, and prints those with another exit code.
 */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, CODE = 42 };

static CUcontext context;
static pthread_t threads[THREADS];
static unsigned long state;

static unsigned next(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/*
 * Copies in both directions and allocates until the process ends. After a failed call, only the
 * thread ends.
 */
static void *busy(void *data)
{
    const size_t number = (size_t)data, size = (5 + 3 * number) * MIB + 17;
    unsigned char *host = kit_pageable(size);
    CUdeviceptr device;
    CUstream stream;
    void *pinned;
    if (cu.cuCtxSetCurrent(context) || cu.cuMemAlloc_v2(&device, size) ||
        cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return NULL;
    for (;;) {
        cu.cuMemcpyHtoDAsync_v2(device, host, size, stream);
        cu.cuMemcpyDtoHAsync_v2(host, device, size, stream);
        cu.cuMemcpyHtoD_v2(device, host, size);
        if (cu.cuMemHostAlloc(&pinned, number ? 4096 : 4 * MIB, 0) == CUDA_SUCCESS)
            cu.cuMemFreeHost(pinned);
        pthread_testcancel();
    }
}

static void cancel_all(void)
{
    for (int i = 0; i < THREADS; i++)
        pthread_cancel(threads[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void by_return(void)
{
}

static void by_exit(void)
{
    exit(CODE);
}

static void by__exit(void)
{
    _exit(CODE);
}

static void by_quick_exit(void)
{
    quick_exit(CODE);
}

static void by_abort(void)
{
    abort();
}

static void by_kill(void)
{
    raise(SIGKILL);
}

static void by_term(void)
{
    kill(getpid(), SIGTERM);
    pause();
}

static void by_fault(void)
{
    *(volatile int *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
}

static void by_cancel(void)
{
    cancel_all();
    exit(CODE);
}

static void by_cancel_one(void)
{
    pthread_cancel(threads[next(THREADS)]);
    kit_sleep_us(next(3000));
    exit(CODE);
}

static void *leaver(void *data)
{
    (void)data;
    exit(CODE);
}

static void by_other_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, leaver, NULL);
    pause();
}

/* This thread ends the process after the first thread has ended. */
static void *late_leaver(void *data)
{
    kit_sleep_us(5000);
    return leaver(data);
}

static void by_pthread_exit(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, late_leaver, NULL);
    pthread_exit(NULL);
}

static void by_fork(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        exit(CODE);
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != CODE)
        _exit(9);
    _exit(WIFEXITED(status) ? CODE : 10);
}

static void by_child_of_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pid_t inner = fork();
        if (inner == 0)
            _exit(CODE);
        waitpid(inner, &status, 0);
        exit(WEXITSTATUS(status));
    }
    waitpid(child, &status, 0);
    exit(WEXITSTATUS(status));
}

static void by_exec(void)
{
    execl("/bin/sh", "sh", "-c", "exit 42", (char *)NULL);
}

static void at_exit_copies(void)
{
    unsigned char *host = kit_pageable(8 * MIB);
    CUdeviceptr device;
    if (cu.cuMemAlloc_v2(&device, 8 * MIB) == CUDA_SUCCESS)
        cu.cuMemcpyHtoD_v2(device, host, 8 * MIB);
}

static void by_exit_that_copies(void)
{
    atexit(at_exit_copies);
    exit(CODE);
}

static const struct {
    const char *name;
    void (*end)(void);
    int status; /* from waitpid */
} ways[] = {
    {"return", by_return, 0},
    {"exit", by_exit, CODE << 8},
    {"_exit", by__exit, CODE << 8},
    {"quick_exit", by_quick_exit, CODE << 8},
    {"abort", by_abort, SIGABRT},
    {"kill", by_kill, SIGKILL},
    {"term", by_term, SIGTERM},
    {"fault", by_fault, SIGSEGV},
    {"cancel", by_cancel, CODE << 8},
    {"cancel-one", by_cancel_one, CODE << 8},
    {"other-thread", by_other_thread, CODE << 8},
    {"pthread_exit", by_pthread_exit, CODE << 8},
    {"fork", by_fork, CODE << 8},
    {"fork-fork", by_child_of_child, CODE << 8},
    {"exec", by_exec, CODE << 8},
    {"atexit", by_exit_that_copies, CODE << 8},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static int one(const char *way, unsigned long seed)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < WAYS; i++) {
        if (strcmp(way, ways[i].name) != 0)
            continue;
        state = seed * 2654435761u + i;
        context = kit_start();
        for (size_t n = 0; n < THREADS; n++)
            pthread_create(&threads[n], NULL, busy, (void *)n);
        kit_sleep_us(next(4) ? next(40000) : next(4000));
        ways[i].end();
        return 0;
    }
    return 2;
}

static int all(unsigned long first, unsigned long runs)
{
    int wrong = 0;
    for (unsigned long seed = first; seed < first + runs; seed++) {
        const unsigned way = (unsigned)(seed % WAYS);
        char text[24];
        int status = 0;
        snprintf(text, sizeof text, "%lu", seed);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "ends", ways[way].name, text, (char *)NULL);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 4;
        if ((status & ~0x80) != ways[way].status) {
            printf("%s %lu ended with %#x, not %#x\n", ways[way].name, seed, (unsigned)status,
                   (unsigned)ways[way].status);
            wrong = 1;
        }
    }
    printf("%lu ends\n", runs);
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "all") == 0)
        return all(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    return argc == 3 ? one(argv[1], strtoul(argv[2], NULL, 10)) : 2;
}
