/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copying thread makes no progress for longer than a sleeping one may: starved [ROUNDS]. A handler of SIGSEGV computes in
 * the middle of the copy, which looks the same to other threads as a copy whose CPU is taken away. Prints "done" if the fill
 * of another thread comes before all bytes of the copy or after them.
 */
#include "kit.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define BUSY_NS 120000000 /* of CPU time */

static CUdeviceptr device;
static CUstream stream;
static unsigned char *host;
static sem_t faulted;

static long long cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void compute(int number, siginfo_t *info, void *unused)
{
    const long long end = cpu_ns() + BUSY_NS;

    (void)number, (void)info, (void)unused;
    sem_post(&faulted);
    while (cpu_ns() < end)
        ;
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
}

static void fill(void *unused)
{
    (void)unused;
    sem_wait(&faulted);
    MUST(cu.cuMemsetD8Async(device, 0x7f, SIZE, stream));
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_sigaction = compute, .sa_flags = SA_SIGINFO};
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
    CUcontext context = kit_start();

    stream = kit_stream();
    device = kit_device(SIZE);
    host = kit_pageable(SIZE);
    memset(host, 1, SIZE);
    for (unsigned i = 0; i < 4; i++) { /* from now on, the ring exists */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
    sem_init(&faulted, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    for (unsigned i = 0; i < rounds; i++) {
        stream = kit_stream(); /* copies on a stream whose copy was met are not cut for some time */
        mprotect(host + SIZE / 2, 4096, PROT_NONE);
        kit_thread(context, fill, NULL);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        kit_join();
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream));
        for (size_t at = 0; at < SIZE; at += 4096)
            if (host[at] != host[0])
                kit_fail("the copy is not in order at", (long)at);
        memset(host, 1, SIZE);
    }
    puts("done");
    fflush(stdout);
    _exit(0);
}
