/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed THREAD|PROCESS|NONE CALL...: copies, forbids the calls in this thread or in the process, and copies again,
 * with larger copies and other allocations. Prints the results. With SEALED_HANDLER in the environment, it handles SIGSEGV.
 */
#include "sandbox.h"

#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

static void ok(CUresult result)
{
    if (result)
        _exit(90);
}

static void leave(int number)
{
    _exit(number);
}

static void copy(CUdeviceptr device, size_t bytes, int seed)
{
    unsigned char *from = malloc(bytes), *to = calloc(1, bytes);

    for (size_t i = 0; i < bytes; i += 4096)
        memset(from + i, (int)(i / 4096 * 7 + (size_t)seed), 4096);
    ok(cuMemcpyHtoD(device, from, bytes));
    ok(cuMemcpyDtoH(to, device, bytes));
    printf("%zu MiB %s\n", bytes / MIB, memcmp(from, to, bytes) ? "differ" : "arrived");
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    unsigned numbers[64], count = 0;
    /*
     * After this time, the library's thread has ended its first round and has not begun its second.
     */
    const struct timespec settled = {.tv_nsec = 400000000};
    const struct timespec moment = {.tv_sec = 1, .tv_nsec = 200000000};
    CUcontext context;
    CUdeviceptr device;

    setvbuf(stdout, NULL, _IONBF, 0);
    if (getenv("SEALED_HANDLER"))
        signal(SIGSEGV, leave);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    ok(cuMemAlloc(&device, 32 * MIB));
    for (int i = 0; i < 2; i++)
        copy(device, MIB, i);
    for (int i = 2; i < argc && count < 64; i++)
        numbers[count++] = (unsigned)atoi(argv[i]);
    char *const shared =
        mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 32 * MIB);
    if (count)
        nanosleep(&settled, NULL);
    if (argv[1][0] == 'P')
        sandbox_synced(numbers, count);
    else if (argv[1][0] == 'T')
        sandbox_filter(numbers, count, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    if (munmap(shared, 32 * MIB))
        _exit(91);
    for (int i = 0; i < 2; i++)
        copy(device, (size_t)(8 << 2 * i) * MIB, i);
    if (count)
        nanosleep(&moment, NULL); /* time for a round of the library's thread */
    copy(device, 16 * MIB, 9);
    _exit(0);
}
