/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a real-time priority puts something on the stream of another thread's copy: urgent to|back. to: a copy within the
 * device. back: an event, behind a copy to the host. Prints "done" if it finds all bytes of the copy. Exits with code 77 if the
 * machine permits no such thread.
 */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define ROUNDS 8

static CUdeviceptr device, snapshot;
static CUstream stream;
static CUevent event;
static unsigned char *host, *pinned;
static volatile bool over; /* the copy's call has returned */

static void follow(void *ret)
{
    const struct sched_param lowest = {.sched_priority = 1};

    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest))
        _exit(77);
    while (!over && cu.cuStreamQuery(stream) == CUDA_SUCCESS)
        ;
    if (!ret)
        MUST(cu.cuMemcpyDtoDAsync_v2(snapshot, device, SIZE, stream));
    MUST(cu.cuEventRecord(event, stream));
    MUST(cu.cuEventSynchronize(event));
    if (ret)
        *(unsigned char *)ret = host[SIZE - 1];
}

static void copy_round(CUcontext context, unsigned char byte, bool back)
{
    unsigned char seen = byte;

    stream = kit_stream(); /* copies on a stream whose copy was met are not cut for some time */
    memset(host, back ? 0 : byte, SIZE);
    MUST(cu.cuMemsetD8Async(device, back ? byte : 0, SIZE, stream));
    MUST(cu.cuStreamSynchronize(stream));
    over = false;
    kit_thread(context, follow, back ? &seen : NULL);
    if (back)
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream));
    else
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
    over = true;
    kit_join();
    WANT(seen == byte);
    MUST(cu.cuMemcpyDtoH_v2(pinned, back ? device : snapshot, SIZE));
    for (size_t at = 0; at < SIZE; at += 4096)
        WANT(pinned[at] == byte);
}

int main(int argc, char **argv)
{
    CUcontext context = kit_start();

    stream = kit_stream();
    device = kit_device(SIZE);
    snapshot = kit_device(SIZE);
    host = kit_pageable(SIZE);
    pinned = kit_pinned(SIZE);
    kit_complete_ring(device, host, SIZE, stream);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned char i = 2; i < ROUNDS; i++)
        copy_round(context, i, argc > 1 && strcmp(argv[1], "back") == 0);
    puts("done");
    fflush(stdout);
    _exit(0);
}
