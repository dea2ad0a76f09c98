/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One arm of bench/pinned.py. Each line of standard input requests allocations of pinned memory, and
 * gets one line as its answer. Between lines the process sleeps.
 *
 *   pairs bytes=N count=N threads=N   each thread repeatedly allocates a block and frees it
 *   hold bytes=N count=N threads=N    each thread allocates `count` blocks, and then frees them
 *       -> seconds for one cuMemHostAlloc, for one cuMemFreeHost, CPU seconds for both
 *   quit
 */
#include "driver.h"

#include <pthread.h>

#define MAX_THREADS 64
#define MAX_COUNT 4096

struct lane {
    pthread_t thread;
    double alloc, free;
    void *blocks[MAX_COUNT];
};

static struct lane lanes[MAX_THREADS];
static pthread_barrier_t barrier;
static size_t bytes, count, threads;
static bool hold;

static void *get(double *took)
{
    void *block = NULL;
    const double start = seconds_now(CLOCK_MONOTONIC);
    MUST(cu.cuMemHostAlloc(&block, bytes, 0));
    *took += seconds_now(CLOCK_MONOTONIC) - start;
    return block;
}

static void put(void *block, double *took)
{
    const double start = seconds_now(CLOCK_MONOTONIC);
    MUST(cu.cuMemFreeHost(block));
    *took += seconds_now(CLOCK_MONOTONIC) - start;
}

static void *work(void *closure)
{
    struct lane *lane = closure;
    lane->alloc = lane->free = 0;
    MUST(cu.cuCtxSetCurrent(bench_context));
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < count; i++) {
        lane->blocks[i] = get(&lane->alloc);
        if (!hold)
            put(lane->blocks[i], &lane->free);
    }
    for (size_t i = 0; hold && i < count; i++)
        put(lane->blocks[i], &lane->free);
    return NULL;
}

static void run(void)
{
    if (count > MAX_COUNT || threads > MAX_THREADS || !count || !threads)
        exit(2);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    const double cpu = cpu_seconds();
    double alloc = 0, freed = 0;
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&lanes[i].thread, NULL, work, &lanes[i]))
            exit(1);
    for (size_t i = 0; i < threads; i++) {
        pthread_join(lanes[i].thread, NULL);
        alloc += lanes[i].alloc;
        freed += lanes[i].free;
    }
    pthread_barrier_destroy(&barrier);
    const double calls = (double)(count * threads);
    printf("%.9f %.9f %.9f\n", alloc / calls, freed / calls, (cpu_seconds() - cpu) / calls);
}

int main(void)
{
    char line[512];
    open_driver();
    open_device();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        bytes = number(line, "bytes", 4096);
        count = number(line, "count", 1);
        threads = number(line, "threads", 1);
        hold = strncmp(line, "hold ", 5) == 0;
        if (hold || strncmp(line, "pairs ", 6) == 0)
            run();
        else
            return 2;
        fflush(stdout);
    }
    return 0;
}
