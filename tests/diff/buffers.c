/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned buffers of 1 to 32 MiB, which a program frees and allocates again: buffers NAME. They are
 * like the driver's.
 */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {MIB + 1, 2 * MIB, 3 * MIB + 4097, 5 * MIB, 32 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

static bool is_zero(const unsigned char *at, size_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

/* Each buffer is zero, whatever earlier buffers had. A copy brings the bytes to the device. */
static void zero(void)
{
    CUdeviceptr device = kit_device(32 * MIB);
    unsigned char *back = kit_pageable(32 * MIB);
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < SIZES; i++) {
            unsigned char *at = kit_pinned(sizes[i]);
            WANT(is_zero(at, sizes[i]));
            kit_fill(at, sizes[i], round * 16 + (unsigned)i);
            MUST(cu.cuMemcpyHtoDAsync_v2(device, at, sizes[i], CU_STREAM_LEGACY));
            MUST(cu.cuMemFreeHost(at)); /* waits for the copy */
            unsigned char *next = kit_pinned(sizes[i]);
            memset(next, 9, sizes[i]);
            MUST(cu.cuMemcpyDtoH_v2(back, device, sizes[i]));
            WANT(kit_is(back, sizes[i], round * 16 + (unsigned)i));
            MUST(cu.cuMemFreeHost(next));
        }
}

/* A child keeps the bytes of a buffer that its parent frees. */
static void inherited(void)
{
    for (unsigned round = 0; round < 4; round++)
        for (size_t i = 0; i < SIZES; i++) {
            int pipes[2], status;
            unsigned char *at = kit_pinned(sizes[i]);
            WANT(pipe(pipes) == 0);
            kit_fill(at, sizes[i], round + 1);
            const pid_t child = round % 2 ? fork() : 1;
            if (child == 0) {
                char byte;
                close(pipes[1]); /* so that the child ends with its parent */
                _exit(read(pipes[0], &byte, 1) == 1 && kit_is(at, sizes[i], round + 1) ? 5 : 6);
            }
            MUST(cu.cuMemFreeHost(at));
            unsigned char *next = kit_pinned(sizes[i]);
            WANT(is_zero(next, sizes[i]));
            WANT(write(pipes[1], "x", 1) == 1);
            WANT(child == 1 || (waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5));
            MUST(cu.cuMemFreeHost(next));
            close(pipes[0]);
            close(pipes[1]);
        }
}

/* Attributes of each buffer, and what a second free returns. */
static void attributes(void)
{
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < SIZES; i++) {
            unsigned char *at = kit_pinned(sizes[i]), *start = NULL;
            uint64_t bytes = 0, mapping = 0;
            unsigned flags = 9;
            const CUdeviceptr inside = (uintptr_t)at + sizes[i] - 1;
            MUST(cu.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
            MUST(cu.cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside));
            MUST(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
            MUST(cu.cuMemHostGetFlags(&flags, at));
            printf("%zu: %lu bytes of %lu from %ld, flags %u\n", sizes[i], (unsigned long)bytes,
                   (unsigned long)mapping, (long)(start - at), flags);
            printf("unregister %d, ", (int)cu.cuMemHostUnregister(at));
            printf("free %d, again %d, ", (int)cu.cuMemFreeHost(at), (int)cu.cuMemFreeHost(at));
            printf("flags %d\n", (int)cu.cuMemHostGetFlags(&flags, at));
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"zero", zero}, {"inherited", inherited}, {"attributes", attributes}};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (argc == 2 && strcmp(argv[1], programs[i].name) == 0) {
            kit_start();
            programs[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
