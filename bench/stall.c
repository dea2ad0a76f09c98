/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of stall timing: stall KIND. If LD_LIBRARY_PATH has a libcuda.so.1, the process first
 * initializes it, like a program that feeds a GPU. Prints ns.
 *
 *   pair    malloc(64) and its free, one thread
 *   mixed   sizes of 16 to 2063 bytes, replaced at random in 1000 slots, two threads at once
 *   large   malloc(2 MiB) and its free
 *   storm   400 times a free that purges at once: 16 MiB, of which one page was touched
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIECES 40
#define SLOTS 1000
#define STORM 400

static double now_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static void pairs(long count, size_t size)
{
    for (long i = 0; i < count; i++) {
        char *block = malloc(size);
        *(volatile char *)block = 1;
        free(block);
    }
}

static void mixed(void **slots, uint32_t *seed, long count)
{
    for (long i = 0; i < count; i++) {
        *seed = *seed * 1664525 + 1013904223;
        void **slot = &slots[(*seed >> 16) % SLOTS];
        free(*slot);
        char *block = malloc(16 + (*seed >> 8) % 2048);
        *(volatile char *)block = 1;
        *slot = block;
    }
}

static double quickest_pair(long count, size_t size)
{
    double best = 1e18;
    for (int i = 0; i < PIECES; i++) {
        const double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        pairs(count, size);
        const double took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
    return best / (double)count;
}

static void *mix(void *ret)
{
    const long count = 100000;
    void **slots = calloc(SLOTS, sizeof(*slots));
    uint32_t seed = (uint32_t)(uintptr_t)ret;
    double best = 1e18;
    mixed(slots, &seed, 10 * SLOTS);
    for (int i = 0; i < PIECES; i++) {
        const double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        mixed(slots, &seed, count);
        const double took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
    *(double *)ret = best / (double)count;
    return NULL;
}

static double quickest_mix(void)
{
    pthread_t threads[2];
    double ns[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, mix, &ns[i]))
            exit(1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return (ns[0] + ns[1]) / 2;
}

static int by_size(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Returns the median duration of a call, which other work on the machine affects little. */
static double storm(void)
{
    static double took[STORM];
    for (int i = 0; i < STORM; i++) {
        char *block = malloc((size_t)16 << 20);
        *(volatile char *)block = 1;
        const double start = now_ns(CLOCK_MONOTONIC);
        free(block);
        took[i] = now_ns(CLOCK_MONOTONIC) - start;
    }
    qsort(took, STORM, sizeof(*took), by_size);
    return took[STORM / 2];
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    void *cuda = getenv("LD_LIBRARY_PATH") ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
    if (init && init(0) != 0)
        return 1;
    if (strcmp(kind, "pair") == 0)
        printf("%.3f\n", quickest_pair(500000, 64));
    else if (strcmp(kind, "mixed") == 0)
        printf("%.3f\n", quickest_mix());
    else if (strcmp(kind, "large") == 0)
        printf("%.3f\n", quickest_pair(2000, (size_t)2 << 20));
    else if (strcmp(kind, "storm") == 0)
        printf("%.3f\n", storm());
    else
        return 2;
    return 0;
}
