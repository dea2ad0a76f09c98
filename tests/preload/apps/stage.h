/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the programs of test_stage.py share. */
#ifndef STAGE_H
#define STAGE_H

#include "time_limit.h"

#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define ok(call)                                                                                   \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_) {                                                                             \
            printf("%s -> %d, line %d\n", #call, (int)result_, __LINE__);                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static CUcontext context;
static unsigned checked, wrong;

static inline void begin(void)
{
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
}

static inline void fill(unsigned char *at, size_t bytes, unsigned seed)
{
    uint64_t word = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i + 8 <= bytes;
         i += 8, word = word * 6364136223846793005u + 1442695040888963407u)
        memcpy(at + i, &word, 8);
}

static inline void check(const unsigned char *got, const unsigned char *wanted, size_t bytes,
                         const char *what)
{
    checked++;
    if (memcmp(got, wanted, bytes)) {
        printf("%s: wrong bytes\n", what);
        wrong++;
    }
}

static inline CUdeviceptr device(size_t bytes)
{
    CUdeviceptr ret;
    ok(cuMemAlloc(&ret, bytes));
    return ret;
}

static inline CUstream stream(unsigned flags)
{
    CUstream ret;
    ok(cuStreamCreate(&ret, flags));
    return ret;
}

static inline void to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream s, bool async)
{
    if (async)
        ok(cuMemcpyHtoDAsync(to, from, bytes, s));
    else
        ok(cuMemcpyHtoD(to, from, bytes));
}

static inline void from_device(void *to, CUdeviceptr from, size_t bytes, CUstream s, bool async)
{
    if (async)
        ok(cuMemcpyDtoHAsync(to, from, bytes, s));
    else
        ok(cuMemcpyDtoH(to, from, bytes));
}

/* A part of a program, which its first argument names. */
struct part {
    const char *name;
    void (*run)(void);
};

/* Runs the named part within 20 s. Returns the exit code. */
static inline int run_part(int argc, char **argv, const struct part *parts, size_t count)
{
    size_t i = 0;
    while (i < count && (argc < 2 || strcmp(argv[1], parts[i].name) != 0))
        i++;
    if (i == count)
        return 64;
    time_limit(20);
    begin();
    parts[i].run();
    printf("%u checked, %u wrong\n", checked, wrong);
    return wrong != 0;
}

/* The library's memory that children do not inherit. */
struct ring {
    size_t pinned;  /* bytes that the current context has registered */
    size_t touched; /* bytes that no context has registered yet */
};

static inline void add_to(struct ring *ring, unsigned long start, unsigned long end, bool touched)
{
    CUpointer_attribute what =
        CU_POINTER_ATTRIBUTE_CONTEXT; /* cuPointerGetAttributes succeeds for any address */
    CUcontext current, owner = NULL;
    void *into = &owner;
    ok(cuCtxGetCurrent(&current));
    for (; start < end; start += 2 * MIB) /* adjacent ranges are one mapping */
        if (cuPointerGetAttributes(1, &what, &into, start) != CUDA_SUCCESS || !owner)
            ring->touched += touched ? 2 * MIB : 0;
        else if (owner == current)
            ring->pinned += 2 * MIB;
}

static inline struct ring look_at_ring(void)
{
    char line[512];
    unsigned long at = 0, until = 0, start, end, size = 0, resident = 0;
    struct ring ring = {0};
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            at = start, until = end;
        sscanf(line, "Size: %lu", &size);
        sscanf(line, "Rss: %lu", &resident);
        if (strncmp(line, "VmFlags:", 8) || !strstr(line, " dc") || size < 1024)
            continue;
        const size_t before = ring.pinned;
        add_to(&ring, at, until, size == resident);
        if (ring.pinned > before && !strstr(line, " dd"))
            printf("a core dump would contain the ring\n");
    }
    fclose(maps);
    return ring;
}

/*
 * Waits until this context's ring exists. The library prepares it after two copies, on a thread
 * that may get a CPU late.
 */
static inline void warm(CUdeviceptr d)
{
    unsigned char *host = malloc(8 * MIB);
    struct ring ring = {0};
    memset(host, 1, 8 * MIB);
    ok(cuMemcpyDtoH(host, d, 8 * MIB));
    for (unsigned i = 0;
         getenv("LD_PRELOAD") && !getenv("COLD") && i < 1000 && !ring.pinned && !ring.touched;
         i++) {
        usleep(3000);
        ring = look_at_ring();
    }
    const bool comes = ring.pinned || ring.touched;
    for (unsigned i = 0; i < 3 || (i < 300 && comes && !look_at_ring().pinned); i++) {
        usleep(3000); /* the helper has not reported it yet */
        ok(cuMemcpyDtoH(host, d, 8 * MIB));
    }
    free(host);
}

#endif
