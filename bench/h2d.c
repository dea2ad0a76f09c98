/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One arm of bench/h2d.py. Each line of standard input requests copies on the driver API, and gets one
 * line as its answer. Between lines the process sleeps, so that several arms can take turns.
 *
 *   copy way=h2d|d2h mode=sync|async|wait bytes=N count=N threads=N streams=own|one|legacy
 *        memory=pageable|pinned load=0|1
 *       -> seconds, CPU seconds of all threads, bytes. Every thread copies `count` times between its
 *          own ranges; with async and wait, on its own stream, on one of all threads, or on the legacy
 *          stream. With wait, it waits for the stream after each copy. Small copies walk through
 *          walk=N bytes (64 MiB), so that no cache holds them.
 *   check ...the same        -> "good" if the bytes at the other end are those that were sent
 *   hold bytes=N             -> "held": registers this much memory in four pieces, as the library
 *                               does for its ring, and keeps it
 *   first way= bytes=        -> seconds, CPU seconds, bytes of the process's first copy
 *   where memory= walk=      -> "pageable=START-END pinned=START-END": the buffers of the first thread
 *   quit
 */
#include "driver.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_THREADS 64

struct lane {
    pthread_t thread;
    CUstream stream, used;
    CUdeviceptr device;
    char *pageable, *pinned;
    size_t pageable_size, pinned_size, device_size;
};

struct job {
    bool h2d, async, waits, pinned;
    size_t bytes, count, threads, walk;
};

static struct lane lanes[MAX_THREADS];
static struct job job;
static pthread_barrier_t barrier;
static double ended[MAX_THREADS];
static atomic_bool load_wanted;
static sem_t load_there;
static double load_cpu;

static void fill(char *at, size_t size, uint64_t seed)
{
    uint64_t *words = (uint64_t *)(void *)at;
    for (size_t i = 0; i < size / 8; i++)
        words[i] = (seed + i) * 0x9e3779b97f4a7c15ull;
}

static void grow(struct lane *lane, size_t size)
{
    if (job.pinned && lane->pinned_size < size) {
        if (lane->pinned)
            MUST(cu.cuMemFreeHost(lane->pinned));
        MUST(cu.cuMemHostAlloc((void **)&lane->pinned, size, 0));
        fill(lane->pinned, size, size);
        lane->pinned_size = size;
    }
    if (!job.pinned && lane->pageable_size < size) {
        if (lane->pageable)
            munmap(lane->pageable, lane->pageable_size);
        lane->pageable =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (lane->pageable == MAP_FAILED) {
            perror("mmap");
            exit(1);
        }
        fill(lane->pageable, size, size + 1);
        lane->pageable_size = size;
    }
    if (lane->device_size < size) {
        if (lane->device)
            MUST(cu.cuMemFree_v2(lane->device));
        MUST(cu.cuMemAlloc_v2(&lane->device, size));
        MUST(cu.cuMemsetD8_v2(lane->device, 0, size));
        lane->device_size = size;
    }
    if (!lane->stream)
        MUST(cu.cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
}

/* The legacy stream has the handle 0. */
static void share_streams(const char *which)
{
    for (size_t i = 0; i < job.threads; i++)
        lanes[i].used = strcmp(which, "own") == 0   ? lanes[i].stream
                        : strcmp(which, "one") == 0 ? lanes[0].stream
                                                    : NULL;
}

static void prepare(const char *line)
{
    job.h2d = strcmp(word(line, "way", "h2d"), "h2d") == 0;
    job.waits = strcmp(word(line, "mode", "sync"), "wait") == 0;
    job.async = job.waits || strcmp(word(line, "mode", "sync"), "async") == 0;
    job.pinned = strcmp(word(line, "memory", "pageable"), "pinned") == 0;
    job.bytes = number(line, "bytes", 1 << 20);
    job.count = number(line, "count", 1);
    job.threads = number(line, "threads", 1);
    if (job.bytes < 8 || job.threads < 1 || job.threads > MAX_THREADS) {
        fprintf(stderr, "h2d: %s\n", line);
        exit(2);
    }
    job.walk = number(line, "walk", (size_t)64 << 20) / job.bytes * job.bytes;
    if (job.walk < job.bytes)
        job.walk = job.bytes;
    for (size_t i = 0; i < job.threads; i++)
        grow(&lanes[i], job.walk);
    share_streams(word(line, "streams", "own"));
    MUST(cu.cuCtxSynchronize());
}

static void copy(const struct lane *lane, size_t at)
{
    char *host = (job.pinned ? lane->pinned : lane->pageable) + at;
    const CUdeviceptr device = lane->device + at;
    if (job.async && job.h2d)
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, job.bytes, lane->used));
    else if (job.async)
        MUST(cu.cuMemcpyDtoHAsync_v2(host, device, job.bytes, lane->used));
    else if (job.h2d)
        MUST(cu.cuMemcpyHtoD_v2(device, host, job.bytes));
    else
        MUST(cu.cuMemcpyDtoH_v2(host, device, job.bytes));
    if (job.waits)
        MUST(cu.cuStreamSynchronize(lane->used));
}

static void *copies(void *closure)
{
    const struct lane *lane = closure;
    MUST(cu.cuCtxSetCurrent(bench_context));
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < job.count; i++)
        copy(lane, i * job.bytes % job.walk);
    if (job.async)
        MUST(cu.cuStreamSynchronize(lane->used));
    ended[lane - lanes] = seconds_now(CLOCK_MONOTONIC);
    return NULL;
}

/* Keeps two kernels of 4 ms queued, on all multiprocessors, until the load is switched off. */
static void *keep_busy(void *closure)
{
    CUstream stream;
    CUevent events[3];
    (void)closure;
    MUST(cu.cuCtxSetCurrent(bench_context));
    const CUfunction function = spin_kernel();
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        MUST(cu.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; load_wanted; i++) {
        while (cu.cuEventQuery(events[i % 3]) == CUDA_ERROR_NOT_READY)
            usleep(500);
        spin(function, stream, 4000000);
        MUST(cu.cuEventRecord(events[i % 3], stream));
        if (i == 2)
            sem_post(&load_there);
    }
    load_cpu = seconds_now(CLOCK_THREAD_CPUTIME_ID);
    MUST(cu.cuStreamSynchronize(stream));
    return NULL;
}

static void start_load(pthread_t *thread)
{
    load_wanted = true;
    if (pthread_create(thread, NULL, keep_busy, NULL))
        exit(1);
    sem_wait(&load_there);
}

static void run_copies(bool load)
{
    pthread_t loader;
    load_cpu = 0;
    if (load)
        start_load(&loader);
    pthread_barrier_init(&barrier, NULL, (unsigned)job.threads + 1);
    for (size_t i = 0; i < job.threads; i++)
        if (pthread_create(&lanes[i].thread, NULL, copies, &lanes[i]))
            exit(1);
    const double cpu = cpu_seconds();
    const double start = seconds_now(CLOCK_MONOTONIC);
    pthread_barrier_wait(&barrier);
    double end = start;
    for (size_t i = 0; i < job.threads; i++) {
        pthread_join(lanes[i].thread, NULL);
        end = ended[i] > end ? ended[i] : end;
    }
    double used = cpu_seconds() - cpu;
    pthread_barrier_destroy(&barrier);
    if (load) {
        load_wanted = false;
        pthread_join(loader, NULL);
        used = used > load_cpu ? used - load_cpu : 0;
    }
    printf("%.9f %.9f %zu\n", end - start, used, job.bytes * job.count * job.threads);
}

/* Copies new bytes to the device, copies them back by another path, and checks all of them. */
static bool arrives(struct lane *lane)
{
    char *host = job.pinned ? lane->pinned : lane->pageable;
    char *other = mmap(NULL, job.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (other == MAP_FAILED)
        return false;
    static uint64_t seed;
    fill(job.h2d ? host : other, job.bytes, ++seed);
    /* too small to be staged, so the driver makes this copy in each arm */
    const size_t piece = 4096;
    for (size_t at = 0; !job.h2d && at < job.bytes; at += piece)
        MUST(cu.cuMemcpyHtoD_v2(lane->device + at, other + at, piece));
    MUST(cu.cuCtxSynchronize()); /* a synchronous copy may return before its bytes have arrived */
    copy(lane, 0);
    MUST(cu.cuCtxSynchronize());
    for (size_t at = 0; job.h2d && at < job.bytes; at += piece)
        MUST(cu.cuMemcpyDtoH_v2(other + at, lane->device + at, piece));
    const bool same = memcmp(host, other, job.bytes) == 0;
    munmap(other, job.bytes);
    return same;
}

static void hold(size_t bytes)
{
    for (int i = 0; i < 4; i++) {
        char *at =
            mmap(NULL, bytes / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED || madvise(at, bytes / 4, MADV_DONTFORK)) {
            perror("hold");
            exit(1);
        }
        memset(at, 1, bytes / 4);
        MUST(cu.cuMemHostRegister_v2(at, bytes / 4, 0));
    }
    printf("held\n");
}

static void where(const struct lane *lane)
{
    printf("pageable=%lx-%lx pinned=%lx-%lx\n", (unsigned long)lane->pageable,
           (unsigned long)lane->pageable + lane->pageable_size, (unsigned long)lane->pinned,
           (unsigned long)lane->pinned + lane->pinned_size);
}

static void first(void)
{
    const double cpu = cpu_seconds(), start = seconds_now(CLOCK_MONOTONIC);
    copy(&lanes[0], 0);
    printf("%.9f %.9f %zu\n", seconds_now(CLOCK_MONOTONIC) - start, cpu_seconds() - cpu, job.bytes);
}

int main(void)
{
    char line[512];
    open_driver();
    open_device();
    spin_kernel();
    sem_init(&load_there, 0, 0);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        prepare(line);
        if (strncmp(line, "copy ", 5) == 0)
            run_copies(number(line, "load", 0) != 0);
        else if (strncmp(line, "check ", 6) == 0)
            printf("%s\n", arrives(&lanes[0]) ? "good" : "bad");
        else if (strncmp(line, "hold ", 5) == 0)
            hold(number(line, "bytes", 0));
        else if (strncmp(line, "first ", 6) == 0)
            first();
        else if (strncmp(line, "where ", 6) == 0)
            where(&lanes[0]);
        else
            return 2;
        fflush(stdout);
    }
    return 0;
}
