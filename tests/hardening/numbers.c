/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers SECONDS TURNS heap|context: one thread takes fixed descriptor numbers by dup2, while
 * others allocate, and, with a context, copy, pin, unmap and create contexts. Prints how often
 * another thread had closed such a number, or was already using it. Ends after TURNS turns, but not
 * before SECONDS.
 */
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* In newer headers, cuCtxCreate is a later version with more arguments. */
#undef cuCtxCreate_v2
CUresult cuCtxCreate_v2(CUcontext *ret, unsigned flags, CUdevice device);

#define MIB ((size_t)1 << 20)
#define NUMBERS 6 /* the lowest free numbers, which open uses first */

static atomic_bool over;
static atomic_int ready;

static void ok(CUresult result)
{
    if (result) {
        printf("driver: error %d\n", (int)result);
        exit(90);
    }
}

/* Frees so much memory that the heap reads the headroom and purges pages. */
static void *use_heap(void *arg)
{
    ready++;
    while (!over) {
        char *block[3];
        for (size_t i = 0; i < 3; i++)
            if ((block[i] = malloc((16 + 8 * i) * MIB)))
                for (size_t at = 0; at < (16 + 8 * i) * MIB; at += 4096)
                    block[i][at] = 1;
        for (size_t i = 0; i < 3; i++)
            free(block[i]);
    }
    return arg;
}

static void *unmap_shared(void *arg)
{
    ready++;
    while (!over) {
        char *at = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            exit(91);
        memset(at, 1, 4 * MIB);
        munmap(at, 4 * MIB);
    }
    return arg;
}

static void *use_driver(void *arg)
{
    CUcontext context = arg;
    CUdeviceptr device;
    char *plain = malloc(4 * MIB);

    ok(cuCtxSetCurrent(context));
    ok(cuMemAlloc(&device, 4 * MIB));
    memset(plain, 1, 4 * MIB);
    ready++;
    while (!over) {
        void *pinned;
        char *fresh =
            mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ok(cuMemHostAlloc(&pinned, 8 * MIB, 0));
        ok(cuMemHostRegister(fresh, 4 * MIB, 0));
        ok(cuMemcpyHtoD(device, plain, 4 * MIB));
        ok(cuMemcpyDtoH(plain, device, 4 * MIB));
        ok(cuMemHostUnregister(fresh));
        ok(cuMemFreeHost(pinned));
        munmap(fresh, 4 * MIB);
    }
    free(plain);
    return NULL;
}

static void *create_contexts(void *arg)
{
    CUdevice device;
    ok(cuDeviceGet(&device, 0));
    ready++;
    while (!over) {
        CUcontext context;
        ok(cuCtxCreate_v2(&context, 0, device));
        ok(cuCtxDestroy(context));
    }
    return arg;
}

static bool is_own(int fd, const struct stat *own)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_dev == own->st_dev && found.st_ino == own->st_ino;
}

/* Each second turn takes the number without a check, so that it may take one that is in use. */
static void take_numbers(double seconds, long turns)
{
    struct timespec begun, now;
    struct stat own;
    long closed = 0, used = 0;
    const int base = memfd_create("own", MFD_CLOEXEC), fd = fcntl(base, F_DUPFD_CLOEXEC, 500);

    if (base < 0 || fd < 0 || fstat(fd, &own))
        exit(92);
    close(base);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long turn = 0;; turn++) {
        const int number = base + (int)(turn / 2 % NUMBERS);
        if (turn >= turns && turn % 256 == 0) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            if ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 >=
                seconds)
                break;
        }
        if (turn % 2 && fcntl(number, F_GETFD) >= 0) {
            used++;
            continue;
        }
        /* EBUSY: another thread is opening a file with this number. */
        if (dup2(fd, number) != number) {
            used++;
            continue;
        }
        for (int i = 0; i < 8 && is_own(number, &own); i++)
            ;
        if (!is_own(number, &own) || close(number))
            closed++;
    }
    over = true;
    printf("%ld numbers were closed, %ld were in use\n", closed, used);
}

int main(int argc, char **argv)
{
    pthread_t thread[6];
    CUcontext context;
    int count = 0;

    if (argc < 4)
        return 98;
    const bool drives = strcmp(argv[3], "context") == 0;
    if (drives) {
        ok(cuInit(0));
        ok(cuDevicePrimaryCtxRetain(&context, 0));
        ok(cuCtxSetCurrent(context));
    }
    pthread_create(&thread[count++], NULL, use_heap, NULL);
    if (drives) {
        pthread_create(&thread[count++], NULL, use_driver, context);
        pthread_create(&thread[count++], NULL, create_contexts, NULL);
    }
    pthread_create(&thread[count++], NULL, unmap_shared, NULL);
    while (ready < count)
        sched_yield();
    take_numbers(strtod(argv[1], NULL), strtol(argv[2], NULL, 10));
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
