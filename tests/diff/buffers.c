/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned buffers of up to 32 MiB, which a program frees and allocates again: buffers NAME. They are
 * like the driver's.
 */
#include "kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {MIB + 1, 2 * MIB, 3 * MIB + 4097, 5 * MIB, 32 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

static bool is_zero(const unsigned char *at, size_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

/* Each buffer is zero, whatever earlier buffers had. A copy brings the bytes to the device. */
static void zero(CUcontext context)
{
    (void)context;
    CUdeviceptr device = kit_device(32 * MIB);
    unsigned char *back = kit_huge(32 * MIB);
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

/* What the program has set for pages of a buffer ends with the buffer. */
static void guarded(CUcontext context)
{
    (void)context;
    static const size_t more[] = {64 << 10, MIB, 5 * MIB, 32 * MIB};
    for (unsigned round = 0; round < 4; round++)
        for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
            unsigned char *at = kit_pinned(more[i]);
            unsigned char *page = at + more[i] / 2 + (-(uintptr_t)at & 4095);
            WANT(is_zero(at, more[i]));
            memset(at, 3, more[i]);
            madvise(page, 4096,
                    102); /* MADV_GUARD_INSTALL; shared memory has none before Linux 6.15 */
            MUST(cu.cuMemFreeHost(at));
        }
}

/* A child keeps the bytes of a buffer that its parent frees. */
static void inherited(CUcontext context)
{
    (void)context;
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

/* Whether the calling process has a shared mapping there, as of pinned memory. */
static bool is_shared(const void *at)
{
    char line[512], access[8];
    unsigned long from, to;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    WANT(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) == 3)
            found |= from <= (uintptr_t)at && (uintptr_t)at < to && access[3] == 's';
    fclose(maps);
    return found;
}

/* Whether a child that is forked now has a shared mapping there. */
static bool is_seen_by_child(const void *at)
{
    int status;
    const pid_t child = fork();
    if (child == 0)
        _exit(is_shared(at));
    WANT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A child has the mappings of the buffers that its parent has then, and of no freed ones. */
static void hidden(CUcontext context)
{
    (void)context;
    static const size_t more[] = {4096,           64 << 10, MIB,    3 * MIB / 2,
                                  2 * MIB - 4096, 2 * MIB,  5 * MIB};
    for (unsigned round = 0; round < 4; round++)
        for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
            unsigned char *at = kit_pinned(more[i]);
            const bool held = round % 2 == 0 && is_seen_by_child(at + more[i] - 1);
            MUST(cu.cuMemFreeHost(at));
            printf("%zu: held %d, freed %d\n", more[i], held, is_seen_by_child(at));
        }
}

#define HOLDERS 4

static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static struct held {
    unsigned char *at; /* NULL: none; changed under the lock */
    size_t size;
} held[HOLDERS];
static _Atomic bool is_over;

static void allocate_and_free(void *data)
{
    static const size_t more[] = {4096, 64 << 10, 600 << 10, 3 * MIB / 2, 2 * MIB, 5 * MIB};
    struct held *mine = data;
    unsigned turn = (unsigned)(mine - held);
    while (!is_over) {
        const size_t size = more[turn++ % (sizeof more / sizeof more[0])];
        unsigned char *at = kit_pinned(size);
        at[0] = at[size - 1] = (unsigned char)(1 + (mine - held));
        pthread_mutex_lock(&holding);
        *mine = (struct held){at, size};
        pthread_mutex_unlock(&holding);
        if (turn % 3 == 0)
            usleep(100);
        pthread_mutex_lock(&holding);
        mine->at = NULL;
        pthread_mutex_unlock(&holding);
        MUST(cu.cuMemFreeHost(at));
    }
}

/* In a child: whether it has all buffers that its parent has. */
static bool has_held(void)
{
    for (size_t i = 0; i < HOLDERS; i++)
        if (held[i].at && (held[i].at[0] != i + 1 || held[i].at[held[i].size - 1] != i + 1))
            return false;
    return true;
}

/* Children are forked while threads allocate and free, and have what the program has then. */
static void forks(CUcontext context)
{
    int wrong = 0;
    for (size_t i = 0; i < HOLDERS; i++)
        kit_thread(context, allocate_and_free, &held[i]);
    for (unsigned i = 0; i < 300; i++) {
        int status;
        pthread_mutex_lock(&holding);
        const pid_t child = fork();
        if (child == 0)
            _exit(has_held() ? 0 : 1);
        WANT(waitpid(child, &status, 0) == child);
        pthread_mutex_unlock(&holding); /* the memory is shared, so it stayed as it was */
        wrong += status != 0;
    }
    is_over = true;
    kit_join();
    printf("wrong: %d\n", wrong);
}

static unsigned flags_of(const void *at)
{
    unsigned flags = 99;
    MUST(cu.cuMemHostGetFlags(&flags, (void *)(uintptr_t)at));
    return flags;
}

/*
 * Buffers below 2 MiB share mappings with smaller ones, whose first one decides on the flags. A new
 * mapping is zero, and what the program does to a live buffer stays when another one is freed.
 */
static void beside(CUcontext context)
{
    (void)context;
    static const size_t more[] = {MIB + 1, 3 * MIB / 2, 2 * MIB - 8192, 2 * MIB};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        unsigned char *small = kit_pinned(MIB), *at;
        memset(small, 0xaa, MIB);
        MUST(cu.cuMemFreeHost(small));
        MUST(cu.cuMemHostAlloc((void **)&at, more[i], CU_MEMHOSTALLOC_PORTABLE));
        printf("%zu: zero %d, flags %u, ", more[i], is_zero(at, more[i]), flags_of(at));
        memset(at, 0x55, more[i]);
        small = kit_pinned(4096);
        MUST(cu.cuMemFreeHost(at));
        printf("flags beside %u, zero %d, ", flags_of(small), is_zero(small, 4096));
        MUST(cu.cuMemHostAlloc((void **)&at, more[i], CU_MEMHOSTALLOC_PORTABLE));
        unsigned char *page = at + (-(uintptr_t)at & 4095), there = 9;
        WANT(mprotect(page, 4096, PROT_READ) == 0);
        MUST(cu.cuMemFreeHost(small));
        MUST(cu.cuMemFreeHost(kit_pinned(4096)));
        struct iovec from = {&there, 1}, to = {page, 1};
        printf("protected %d, ", process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0);
        WANT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
        printf("seen %d\n", is_seen_by_child(at));
        MUST(cu.cuMemFreeHost(at));
    }
}

/* Attributes of each buffer, and what a second free returns. */
static void attributes(CUcontext context)
{
    (void)context;
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

static unsigned char *faulty, *block_of_handler;

static void on_fault(int number)
{
    (void)number;
    block_of_handler = kit_pinned(4096);
    mprotect(faulty, 4096, PROT_READ | PROT_WRITE);
}

/*
 * The handler of SIGSEGV, in a copy, allocates a block beside one that the program has. When it is
 * freed, the other block stays.
 */
static void handler(CUcontext context)
{
    (void)context;
    const CUdeviceptr device = kit_device(16 * MIB);
    unsigned char *const from = kit_pageable(16 * MIB), *const block = kit_pinned(8192);

    for (unsigned i = 0; i < 4; i++) /* from now on, the copies are staged */
        MUST(cu.cuMemcpyHtoD_v2(device, from, 16 * MIB));
    faulty = from + 8 * MIB;
    signal(SIGSEGV, on_fault);
    mprotect(faulty, 4096, PROT_NONE);
    MUST(cu.cuMemcpyHtoD_v2(device, from, 16 * MIB));
    MUST(cu.cuMemFreeHost(block_of_handler));
    printf("seen %d\n", is_seen_by_child(block));
    MUST(cu.cuMemFreeHost(block));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(CUcontext context);
    } programs[] = {{"zero", zero},       {"inherited", inherited},   {"hidden", hidden},
                    {"beside", beside},   {"attributes", attributes}, {"forks", forks},
                    {"handler", handler}, {"guarded", guarded}};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (argc == 2 && strcmp(argv[1], programs[i].name) == 0) {
            const CUcontext context = kit_start();
            programs[i].run(context);
            puts("done");
            return 0;
        }
    return 2;
}
