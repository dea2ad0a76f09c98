/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handler of SIGSEGV in the middle of a copy: starved computes|creates. computes: the copy makes no progress for longer than
 * a sleeping one may, as one whose CPU is taken away. creates: the handler creates a thread, which fills the buffer during
 * later copies. Prints "done" if each fill comes before all bytes of the copy or after them.
 */
#include "kit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define BUSY_NS 120000000 /* of CPU time */
#define ROUNDS 4

static CUcontext context;
static CUdeviceptr device;
static CUstream stream;
static unsigned char *host;
static sem_t begins, filled;
static volatile bool over; /* the copy's call has returned */

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
    sem_post(&begins);
    while (cpu_ns() < end)
        ;
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
}

static void *fill(void *in_middle)
{
    MUST(cu.cuCtxSetCurrent(context));
    for (unsigned i = 0; i < ROUNDS; i++) {
        sem_wait(&begins);
        while (in_middle && !over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
            ;
        MUST(cu.cuMemsetD8Async(device, 0x7f, SIZE, stream));
        sem_post(&filled);
    }
    return NULL;
}

static void create(int number, siginfo_t *info, void *unused)
{
    static bool yes = true;
    pthread_t thread;

    (void)number, (void)info, (void)unused;
    if (pthread_create(&thread, NULL, fill, &yes))
        kit_fail("pthread_create", 0);
    mprotect(host, SIZE, PROT_READ | PROT_WRITE);
}

static void copy_round(bool faults)
{
    stream = kit_stream(); /* copies on a stream whose copy was met are not cut for some time */
    memset(host, 1, SIZE);
    if (faults)
        mprotect(host + SIZE / 2, 4096, PROT_NONE);
    else
        sem_post(&begins);
    over = false;
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
    over = true;
    sem_wait(&filled);
    MUST(cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream));
    for (size_t at = 0; at < SIZE; at += 4096)
        if (host[at] != host[0])
            kit_fail("the copy is not in order at", (long)at);
}

int main(int argc, char **argv)
{
    const bool creates = argc > 1 && strcmp(argv[1], "creates") == 0;
    const struct sigaction action = {.sa_sigaction = creates ? create : compute,
                                     .sa_flags = SA_SIGINFO};
    pthread_t thread;

    context = kit_start();
    stream = kit_stream();
    device = kit_device(SIZE);
    host = kit_pageable(SIZE);
    kit_complete_ring(device, host, SIZE, stream);
    sem_init(&begins, 0, 0);
    sem_init(&filled, 0, 0);
    sigaction(SIGSEGV, &action, NULL);
    if (creates) {
        mprotect(host + SIZE / 2, 4096, PROT_NONE);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
    } else if (pthread_create(&thread, NULL, fill, NULL)) {
        kit_fail("pthread_create", 0);
    }
    for (unsigned i = 0; i < ROUNDS; i++)
        copy_round(!creates);
    puts("done");
    fflush(stdout);
    _exit(0);
}
