/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time of programs that free memory and use as much again, under any preload:
 *
 *   batch MIB KIB ROUNDS     fills and frees MIB in blocks of KIB
 *   swing MIB ROUNDS         batches of 3/5 to 1 of MIB; the next one is made before the last is freed
 *   beside MIB ROUNDS        a batch of MIB in a loop, while another thread grows a buffer by realloc again and again
 *   turns MIB ROUNDS         batches of MIB, each on a new thread
 *
 * Prints the milliseconds of CPU time for a batch: the median of the first four, and of those from the sixth on; and
 * the most resident MiB. With REUSE_ENGINE, the process first creates a context.
 */
#include "blocks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define ROUNDS_MOST 1000
#define FIRST 4
#define WARM 5

static size_t size, part;
static uint32_t seed = 1;

static double cpu_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec * 1e-6;
}

static void start_engine(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
    int (*retain)(void **, int) = driver ? dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    if (!init || !retain || init(0) || retain(&context, 0))
        exit(1);
    usleep(500000); /* the engine is loaded by another thread */
}

static void batch(void)
{
    const size_t count = size / part;
    void **block = malloc(count * sizeof *block);
    for (size_t i = 0; i < count; i++)
        block[i] = filled(part);
    for (size_t i = 0; i < count; i++)
        free(block[i]);
    free(block);
}

static void swing(void)
{
    static void *last;
    void *next = filled(size / 5 * 3 + chance(&seed) * (uint64_t)(size / 5 * 2) / (1 << 24));
    free(last);
    last = next;
}

static void *timed_batch(void *ret)
{
    const double start = cpu_ms();
    batch();
    *(double *)ret = cpu_ms() - start;
    return NULL;
}

static volatile int over;

static void *grow(void *arg)
{
    while (!over) {
        char *buffer = NULL;
        for (size_t have = MIB; have < 4 * size && !over; have += have / 8) {
            buffer = realloc(buffer, have + have / 8);
            memset(buffer + have, 1, have / 8);
        }
        free(buffer);
    }
    return arg;
}

static double one(const char *kind)
{
    double ms = 0;
    pthread_t thread;
    if (strcmp(kind, "turns") == 0) {
        if (pthread_create(&thread, NULL, timed_batch, &ms))
            exit(1);
        pthread_join(thread, NULL);
        return ms;
    }
    const double start = cpu_ms();
    strcmp(kind, "swing") == 0 ? swing() : batch();
    return cpu_ms() - start;
}

static int by_value(const void *a, const void *b)
{
    const double one_ = *(const double *)a, other = *(const double *)b;
    return (one_ > other) - (one_ < other);
}

static double median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_value);
    return value[count / 2];
}

int main(int argc, char **argv)
{
    static double ms[ROUNDS_MOST];
    struct rusage used;
    pthread_t thread;
    const int rounds = argc > 3 ? atoi(argv[argc - 1]) : 0;
    if (rounds <= WARM || rounds > ROUNDS_MOST)
        return 2;
    size = (size_t)atoi(argv[2]) * MIB;
    part = argc > 4 ? (size_t)atoi(argv[3]) << 10 : size;
    if (getenv("REUSE_ENGINE"))
        start_engine();
    if (strcmp(argv[1], "beside") == 0 && pthread_create(&thread, NULL, grow, NULL))
        return 1;
    for (int i = 0; i < rounds; i++)
        ms[i] = one(argv[1]);
    over = 1;
    const double first = median(ms, FIRST), later = median(ms + WARM, rounds - WARM);
    getrusage(RUSAGE_SELF, &used);
    printf("%.4f %.4f %.1f\n", first, later, (double)used.ru_maxrss / 1024);
    return 0;
}
