/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast threads touch fresh shared memory, without a GPU. Each combination of the arguments is
 * measured several times, in turns:
 *
 *   touch MIB THREADS,... MAPPINGS,... UNIT_MIB,... [ROUNDS]
 *       -> for each: the median in ms of MADV_POPULATE_WRITE, of one thread that reads a cached file
 *          into the memory afterwards, and of MADV_DONTNEED and munmap
 *
 * The memory is divided into adjacent shared mappings of equal size, and these into units. Threads
 * take units in order, from one mapping after the other, as src/engine/transfer/pinned does.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define MIB ((size_t)1 << 20)
#define MOST 64
#define FILE_SIZE (256 * MIB)

struct combination {
    size_t threads, mappings, unit;
    double touch[MOST], fill[MOST], drop[MOST];
};

static size_t bytes;
static char *memory;
static const struct combination *now;
static int file; /* its bytes are in memory */
static atomic_size_t next;
static int advice;
static pthread_barrier_t barrier;

static double seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void *work(void *unused)
{
    const size_t mapping = bytes / now->mappings, rows = (mapping + now->unit - 1) / now->unit;
    pthread_barrier_wait(&barrier);
    for (size_t i; (i = atomic_fetch_add(&next, 1)) < rows * now->mappings;) {
        const size_t within = i / now->mappings * now->unit;
        const size_t size = now->unit < mapping - within ? now->unit : mapping - within;
        if (madvise(memory + i % now->mappings * mapping + within, size, advice) != 0) {
            perror("madvise");
            exit(1);
        }
    }
    pthread_barrier_wait(&barrier);
    return unused;
}

static double run(int what)
{
    pthread_t threads[MOST];
    advice = what;
    atomic_store(&next, 0);
    pthread_barrier_init(&barrier, NULL, (unsigned)now->threads + 1);
    for (size_t i = 0; i < now->threads; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            exit(1);
    pthread_barrier_wait(&barrier);
    const double start = seconds();
    pthread_barrier_wait(&barrier);
    const double took = seconds() - start;
    for (size_t i = 0; i < now->threads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return took;
}

/* Reads as a loader does, in calls of the file's size. */
static double fill(void)
{
    const double start = seconds();
    for (size_t at = 0; at < bytes; at += FILE_SIZE)
        if (pread(file, memory + at, bytes - at < FILE_SIZE ? bytes - at : FILE_SIZE, 0) <= 0)
            exit(1);
    return seconds() - start;
}

static void open_file(void)
{
    static char block[1 << 20];
    file = memfd_create("touch", 0);
    for (size_t at = 0; at < FILE_SIZE; at += sizeof block)
        if (pwrite(file, block, sizeof block, (off_t)at) != sizeof block)
            exit(1);
}

static void measure(struct combination *combination, size_t round)
{
    now = combination;
    const size_t mapping = bytes / now->mappings;
    memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; memory != MAP_FAILED && i < now->mappings; i++)
        if (mmap(memory + i * mapping, mapping, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            exit(1);
    combination->touch[round] = run(MADV_POPULATE_WRITE);
    combination->fill[round] = fill();
    const double start = seconds();
    run(MADV_DONTNEED);
    munmap(memory, bytes);
    combination->drop[round] = seconds() - start;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static size_t parse(char *list, size_t ret[MOST])
{
    size_t count = 0;
    for (char *word = strtok(list, ","); word && count < MOST; word = strtok(NULL, ","))
        if ((ret[count] = strtoul(word, NULL, 10)))
            count++;
    return count;
}

int main(int argc, char **argv)
{
    static struct combination all[512];
    size_t threads[MOST], mappings[MOST], units[MOST], count = 0;
    if (argc < 5)
        return 2;
    const size_t t = parse(argv[2], threads), m = parse(argv[3], mappings),
                 u = parse(argv[4], units), rounds = argc > 5 ? strtoul(argv[5], NULL, 10) : 3;
    bytes = strtoul(argv[1], NULL, 10) * MIB;
    for (size_t i = 0; i < t * m * u && count < 512; i++)
        all[count++] = (struct combination){.threads = threads[i / (m * u)],
                                            .mappings = mappings[i / u % m],
                                            .unit = units[i % u] * MIB};
    open_file();
    for (size_t round = 0; round < rounds && round < MOST; round++)
        for (size_t i = 0; i < count; i++)
            measure(&all[i], round);
    for (size_t i = 0; i < count; i++)
        printf("%2zu threads, %2zu mappings, %4zu MiB units: touch %7.1f ms, read %7.1f ms, drop "
               "%7.1f ms\n",
               all[i].threads, all[i].mappings, all[i].unit / MIB,
               median(all[i].touch, rounds) * 1e3, median(all[i].fill, rounds) * 1e3,
               median(all[i].drop, rounds) * 1e3);
    return 0;
}
