/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain program with one line for each step: steps [registering|sharing] [REFUSAL]. It copies and
 * uses pinned memory, or registers memory, or unmaps shared memory. It calls only a few driver
 * functions itself, so a fault in any other function hits a call of the library. REFUSAL names a
 * system call that fails for all threads, from a moment before the first copy. With STEPS_ASK, a
 * line says whether a copy has arrived when its call returns; on the simulated driver it has.
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* These copies have many DMAs, and are large enough to add the first segment to the ring. */
#define SIZE (40 * MIB)
#define LATER (8 * MIB)   /* the copies of the last round, which find a ring */
#define PINNED (33 * MIB) /* the library serves pinned memory from 32 MiB on, with pages of 4 KiB */
#define REGISTERED (20 * MIB) /* it prefaults memory from 16 MiB on */
#define SHARED (16 * MIB)     /* it unmaps shared memory in pieces of 8 MiB */

/* Four sums, because each step of one waits for the step before. */
static uint64_t sum(const unsigned char *at, size_t size)
{
    uint64_t sums[4] = {1, 2, 3, 4}, words[4];
    for (size_t i = 0; i + sizeof words <= size; i += sizeof words) {
        memcpy(words, at + i, sizeof words);
        for (int k = 0; k < 4; k++)
            sums[k] = (sums[k] ^ words[k]) * 0x9e3779b97f4a7c15u;
    }
    return (sums[0] * 3 ^ sums[1]) * 5 ^ (sums[2] * 7 ^ sums[3]) * 11;
}

static void say(const char *what, CUresult code, const unsigned char *bytes, size_t size)
{
    printf("%s -> %d %016lx\n", what, (int)code, bytes ? (unsigned long)sum(bytes, size) : 0);
    fflush(stdout);
}

/*
 * Waits until all other threads sleep. Background work has then ended or failed, because a thread
 * that waits for another one wakes it first.
 */
static void settle(void)
{
    for (unsigned ms = 0, quiet = 0; quiet < 2 && ms < 5000; ms++) {
        usleep(1000);
        quiet = kit_others_sleep() ? quiet + 1 : 0;
    }
}

static CUstream apart;

/*
 * Copies back on a stream that does not wait for others. This shows which bytes had arrived when
 * the call of the copy to the device returned.
 */
static void copies(CUdeviceptr device, unsigned char *host, unsigned char *back, unsigned round)
{
    const size_t most = round < 2 ? SIZE : LATER, size = most - 3 * 4096 * round - round;
    kit_fill(host, most, round);
    CUresult result = cu.cuMemcpyHtoD_v2(device, host, size);
    if (getenv("STEPS_ASK"))
        say("arrived", cu.cuStreamQuery(CU_STREAM_LEGACY), NULL, 0);
    memset(host, (int)round, most);
    say("h2d", result, NULL, 0);
    memset(back, 0, most);
    result = round & 1 ? cu.cuMemcpyDtoHAsync_v2(back, device, size, apart)
                       : cu.cuMemcpyDtoH_v2(back, device, size);
    say("d2h", result, back, most);
}

static void pinned(CUdeviceptr device, size_t size)
{
    void *block = NULL;
    CUresult result = cu.cuMemHostAlloc(&block, size, 0);
    say("host alloc", result, block, 0);
    if (result)
        return;
    kit_fill(block, size, (unsigned)size);
    say("h2d pinned", cu.cuMemcpyHtoD_v2(device, block, size), NULL, 0);
    memset(block, 0, size);
    result = cu.cuMemcpyDtoH_v2(block, device, size);
    say("d2h pinned", result, block, size);
    say("host free", cu.cuMemFreeHost(block), NULL, 0);
}

/*
 * Registers memory of which most pages are absent, so that prefaulting saves time. The present
 * pages stay.
 */
static void registered(CUdeviceptr device)
{
    unsigned char *own = kit_pageable(REGISTERED);
    kit_fill(own + REGISTERED / 2, REGISTERED / 8, 5);
    say("register", cu.cuMemHostRegister_v2(own, REGISTERED, 0), own, REGISTERED);
    say("h2d registered", cu.cuMemcpyHtoD_v2(device, own, REGISTERED), NULL, 0);
    memset(own, 0, REGISTERED);
    CUresult result = cu.cuMemcpyDtoH_v2(own, device, REGISTERED);
    say("d2h registered", result, own, REGISTERED);
    say("unregister", cu.cuMemHostUnregister(own), own, REGISTERED);
    munmap(own, REGISTERED);
}

/*
 * Copies from shared memory, as DataLoader passes batches. No other process has the file, and the
 * program unmaps it after the copy.
 */
static void shared(CUdeviceptr device, unsigned char *back, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "/gpufeed-steps-%d", (int)getpid());
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || shm_unlink(name) || ftruncate(fd, (off_t)size))
        exit(77);
    unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        say("no memory", CUDA_SUCCESS, NULL, 0);
        return;
    }
    kit_fill(at, size, 11);
    say("h2d shared", cu.cuMemcpyHtoD_v2(device, at, size), NULL, 0);
    say("unmap", (CUresult)-munmap(at, size), NULL, 0);
    CUresult result = cu.cuMemcpyDtoH_v2(back, device, size);
    say("d2h", result, back, size);
}

int main(int argc, char **argv)
{
    const bool registering = argc > 1 && strcmp(argv[1], "registering") == 0;
    const bool sharing = argc > 1 && strcmp(argv[1], "sharing") == 0;
    const int named = 1 + (registering || sharing);
    kit_start();
    CUdeviceptr device = kit_device(SIZE);
    unsigned char *host = kit_huge(SIZE), *back = kit_huge(SIZE);
    kit_fill(back, SIZE, 1);
    apart = kit_stream();
    MUST(cu.cuMemcpyHtoD_v2(device, back, 64));
    MUST(cu.cuMemsetD8Async(kit_device(64), 1, 64,
                            /* the driver's threads exist, and the program does not wait for them */
                            apart));
    if (argc > named)
        kit_refuse(argv[named]);
    for (unsigned round = 0; registering && round < 3; round++) {
        registered(device);
        settle();
    }
    for (unsigned round = 0; sharing && round < 3; round++) {
        shared(device, back, round < 2 ? SIZE : SHARED);
        settle();
    }
    for (unsigned round = 0; named == 1 && round < 3; round++) {
        copies(device, host, back, round);
        settle();
        pinned(device, round & 1 ? PINNED : 4096 * (1 + round) + 5);
        settle();
    }
    puts("done");
    return 0;
}
