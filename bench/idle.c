/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the memory that an idle process still holds, under any preload:
 *
 *   freed MIB SECONDS       main fills and frees blocks of 64 KiB, and then four threads do so with
 *                           64 MiB each; all make 20000 small calls in SECONDS
 *   idle THREADS SECONDS    threads sleep after they used blocks of up to 1 MiB; main makes the calls
 *   turns THREADS SECONDS   one thread after the other fills 40 MiB of blocks of up to 1 MiB, frees
 *                           them and sleeps; then main makes the calls
 *
 * With the further word `gpu`, it first creates a CUDA context. Prints the resident MiB before and
 * after the calls.
 */
#include "blocks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define CALLS 20000
#define WORKERS 4
#define SLOTS 8192
#define TURN_MIB 40

static pthread_barrier_t slept;
static double seconds;

static double resident_mib(void)
{
    char line[128] = "";
    const int fd = open("/proc/self/statm", 0);
    if (fd < 0 || read(fd, line, sizeof(line) - 1) < 1)
        exit(1);
    close(fd);
    return (double)strtoul(strchr(line, ' '), NULL, 10) * (double)sysconf(_SC_PAGESIZE) / MIB;
}

/* Fills this many bytes of blocks, and then frees all of them, like the parts of a batch. */
static void fill(size_t bytes, size_t least, size_t spread, uint32_t seed)
{
    void **blocks = malloc(SLOTS * 8 * sizeof(*blocks));
    size_t count = 0;
    for (size_t done = 0; done < bytes && count < (size_t)SLOTS * 8;) {
        const size_t size = least + (spread ? chance(&seed) * (uint64_t)spread >> 24 : 0);
        blocks[count++] = filled(size);
        done += size;
    }
    while (count)
        free(blocks[--count]);
    free(blocks);
}

static void small_calls(int count)
{
    const struct timespec pause = {.tv_nsec = (long)(seconds * 1e9 / (count / 50.0)) % 1000000000};
    uint32_t seed = 7;
    for (int done = 0; done < count; done += 50) {
        for (int i = 0; i < 25; i++)
            free(filled(16 + chance(&seed) % 1000));
        nanosleep(&pause, NULL);
    }
}

static void *worker(void *closure)
{
    fill(64 * MIB, 64 << 10, 0, 1);
    pthread_barrier_wait(&slept);
    small_calls(CALLS / WORKERS);
    return closure;
}

static void *sleeper(void *closure)
{
    for (size_t size = 16; size <= MIB; size += size / 4 ? size / 4 : 16)
        fill(size * 20 < 8 * MIB ? size * 20 : 8 * MIB, size, 0, 1);
    pthread_barrier_wait(&slept);
    pause();
    return closure;
}

static void *taker(void *closure)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    fill(TURN_MIB * MIB, 1 << 10, MIB - (1 << 10), (uint32_t)(uintptr_t)closure);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&slept);
    pause();
    return closure;
}

static void make_context(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*create)(void **, unsigned, int) =
        (int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2");
    if (!init || !create || init(0) || create(&context, 0, 0))
        exit(3);
}

static void start(unsigned count, void *(*body)(void *))
{
    pthread_t thread;
    pthread_barrier_init(&slept, NULL, count + 1);
    for (unsigned i = 1; i <= count; i++)
        if (pthread_create(&thread, NULL, body, (void *)(uintptr_t)i))
            exit(1);
    pthread_barrier_wait(&slept);
}

int main(int argc, char **argv)
{
    const unsigned number = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
    if (number < 1)
        return 2;
    seconds = atof(argv[3]);
    if (argc > 4)
        make_context();
    if (strcmp(argv[1], "freed") == 0) {
        fill(number * MIB, 64 << 10, 0, 1);
        start(WORKERS, worker);
    } else {
        start(number, strcmp(argv[1], "idle") == 0 ? sleeper : taker);
    }
    const double before = resident_mib();
    if (strcmp(argv[1], "freed") == 0)
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = 500000000}, NULL);
    else
        small_calls(CALLS);
    printf("%.0f %.0f\n", before, resident_mib());
    return 0;
}
