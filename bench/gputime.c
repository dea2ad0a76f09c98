/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops whose GPU time is known, and the cost of launches. Reads lines:
 *
 *   loop kind=K work_us=N gap_us=N bytes=N seconds=S   answers the share of the time outside the waits
 *       kind: sleep (work, wait, sleep), compute (work, wait, compute), copy (blocking copies of pageable
 *       memory, with gaps), short (a wait after 64 launches)
 *   launch threads=N streams=N seconds=S               answers launches/s, and the median and p99 of one
 *                                                      launch in ns
 *   beside way=W bytes=N rate=N seconds=S              a thread launches each 20 us while another copies
 *       pageable memory; answers launches/s, median and p99 of a launch in ns, and copies/s
 *       way: async (to the GPU, then a wait), sync (to the GPU), back (from the GPU, then a wait)
 *       rate: copies/s; 0: as many as possible
 *   quit
 */
#include "driver.h"

#include <pthread.h>
#include <unistd.h>

#define BUCKETS 65536 /* buckets of 25 ns each */
#define BUCKET_NS 25
#define STREAMS 32
#define THREADS 8
#define PACE_NS 20000 /* between two launches beside copies */
#define BURST 64      /* launches between two waits of a loop of short work */

static CUfunction kernel;
static CUstream streams[STREAMS];

static uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void compute(uint64_t ns)
{
    const uint64_t until = now_ns() + ns;
    while (now_ns() < until)
        ;
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u),
                                .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&at, NULL);
}

static double seconds_of(const char *line)
{
    return strtod(word(line, "seconds", "0.3"), NULL);
}

static void loop(const char *line)
{
    const char *kind = word(line, "kind", "sleep");
    const uint64_t work = number(line, "work_us", 1000) * 1000;
    const uint64_t gap = number(line, "gap_us", 1000) * 1000;
    const size_t bytes = number(line, "bytes", 4u << 20);
    const uint64_t start = now_ns(), until = start + (uint64_t)(seconds_of(line) * 1e9);
    uint64_t outside = 0, count = 0;
    CUdeviceptr device = 0;
    char *host = NULL;

    if (strcmp(kind, "copy") == 0) {
        MUST(cu.cuMemAlloc_v2(&device, bytes));
        host = calloc(1, bytes);
    }
    while (now_ns() < until) {
        if (host) {
            MUST(cu.cuMemcpyHtoD_v2(device, host, bytes));
        } else {
            spin(kernel, streams[0], work);
            if (strcmp(kind, "short") != 0 || ++count % BURST == 0)
                MUST(cu.cuStreamSynchronize(streams[0]));
        }
        const uint64_t left = now_ns();
        if (gap)
            strcmp(kind, "compute") == 0 ? compute(gap) : sleep_ns(gap);
        outside += now_ns() - left;
    }
    MUST(cu.cuCtxSynchronize());
    printf("%.6f\n", (double)outside / (double)(now_ns() - start));
    if (device)
        MUST(cu.cuMemFree_v2(device));
    free(host);
}

struct launcher {
    pthread_t thread;
    unsigned number, threads, streams;
    uint64_t until, pace_ns, launches;
    unsigned bucket[BUCKETS];
};

static void *launch(void *closure)
{
    struct launcher *self = closure;
    uint64_t ns = 0, before;
    void *params[] = {&ns};

    MUST(cu.cuCtxSetCurrent(bench_context));
    for (before = now_ns(); before < self->until; self->launches++) {
        const unsigned stream =
            (unsigned)(self->number + self->launches * self->threads) % self->streams;
        MUST(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, streams[stream], params, NULL));
        const uint64_t now = now_ns(), at = (now - before) / BUCKET_NS;
        self->bucket[at < BUCKETS ? at : BUCKETS - 1]++;
        before = now;
        if (self->pace_ns) {
            compute(self->pace_ns);
            before = now_ns();
        }
    }
    return NULL;
}

static uint64_t percentile(const uint64_t *buckets, uint64_t all, double part)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += buckets[i]) >= (uint64_t)((double)all * part))
            return (uint64_t)i * BUCKET_NS;
    return (uint64_t)BUCKETS * BUCKET_NS;
}

/* Runs the threads of `launcher` until they end. Prints launches/s, and the median and p99 of a launch in ns. */
static void run_launchers(struct launcher *launcher, unsigned threads)
{
    static uint64_t sums[BUCKETS];
    const uint64_t start = now_ns();
    uint64_t all = 0;

    memset(sums, 0, sizeof sums);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&launcher[i].thread, NULL, launch, &launcher[i]))
            exit(1);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(launcher[i].thread, NULL);
        all += launcher[i].launches;
        for (unsigned b = 0; b < BUCKETS; b++)
            sums[b] += launcher[i].bucket[b];
    }
    const double seconds = (double)(now_ns() - start) * 1e-9;
    MUST(cu.cuCtxSynchronize());
    printf("%.0f %llu %llu", (double)all / seconds, (unsigned long long)percentile(sums, all, 0.5),
           (unsigned long long)percentile(sums, all, 0.99));
}

static void launches(const char *line)
{
    static struct launcher launcher[THREADS];
    const size_t asked = number(line, "threads", 1);
    const unsigned threads = (unsigned)(asked < THREADS ? asked : THREADS);
    const uint64_t until = now_ns() + (uint64_t)(seconds_of(line) * 1e9);

    memset(launcher, 0, sizeof launcher);
    for (unsigned i = 0; i < threads; i++) {
        launcher[i].number = i;
        launcher[i].threads = threads;
        launcher[i].streams = (unsigned)number(line, "streams", 1);
        launcher[i].until = until;
    }
    run_launchers(launcher, threads);
    puts("");
}

struct copier {
    pthread_t thread;
    const char *way;
    size_t bytes, rate;
    uint64_t until, copies;
};

static void *copy_on(void *closure)
{
    struct copier *self = closure;
    char *host = malloc(self->bytes);
    CUdeviceptr device;
    CUstream stream = streams[1];

    if (!host)
        exit(1);
    memset(host, 1, self->bytes);
    MUST(cu.cuCtxSetCurrent(bench_context));
    MUST(cu.cuMemAlloc_v2(&device, self->bytes));
    for (uint64_t next = now_ns(); now_ns() < self->until; self->copies++) {
        if (strcmp(self->way, "sync") == 0)
            MUST(cu.cuMemcpyHtoD_v2(device, host, self->bytes));
        else if (strcmp(self->way, "back") == 0)
            MUST(cu.cuMemcpyDtoHAsync_v2(host, device, self->bytes, stream));
        else
            MUST(cu.cuMemcpyHtoDAsync_v2(device, host, self->bytes, stream));
        MUST(cu.cuStreamSynchronize(stream));
        if (self->rate) {
            const uint64_t now = now_ns();
            next += 1000000000u / self->rate;
            if (next > now)
                sleep_ns(next - now);
        }
    }
    MUST(cu.cuMemFree_v2(device));
    free(host);
    return NULL;
}

static void beside(const char *line)
{
    static struct launcher launcher;
    const uint64_t start = now_ns(), until = start + (uint64_t)(seconds_of(line) * 1e9);
    struct copier copier = {.way = word(line, "way", "async"),
                            .bytes = number(line, "bytes", 16u << 20),
                            .rate = number(line, "rate", 0),
                            .until = until};

    memset(&launcher, 0, sizeof launcher);
    launcher.threads = launcher.streams = 1;
    launcher.until = until;
    launcher.pace_ns = PACE_NS;
    if (pthread_create(&copier.thread, NULL, copy_on, &copier))
        exit(1);
    run_launchers(&launcher, 1);
    pthread_join(copier.thread, NULL);
    printf(" %.0f\n", (double)copier.copies / ((double)(now_ns() - start) * 1e-9));
}

int main(void)
{
    char line[256];

    open_driver();
    open_device();
    kernel = spin_kernel();
    for (unsigned i = 0; i < STREAMS; i++)
        MUST(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (strncmp(line, "loop", 4) == 0)
            loop(line);
        else if (strncmp(line, "launch", 6) == 0)
            launches(line);
        else if (strncmp(line, "beside", 6) == 0)
            beside(line);
        fflush(stdout);
    }
    return 0;
}
