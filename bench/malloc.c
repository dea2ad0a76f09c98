/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of malloc and free under any preload: malloc KIND. Prints one number.
 *
 *   pair SIZE       ns for malloc(SIZE) and its free, one thread
 *   mixed THREADS   ns for a pair: sizes of 16 to 2063 bytes replaced at random in 1000 slots
 *   large THREADS   the same, 32 KiB to 1 MiB in 16 slots
 *   pass SIZE       ns for a block that one thread allocates and another frees
 *   churn           us to create a thread that allocates 1000 blocks, frees them and ends
 *   fill MIB        ms to allocate, write and free a block, in a loop on the main thread
 *   fillother MIB   the same on another thread
 *   zeroed MIB      the same with calloc, on the main thread
 *   grow MIB        ms to grow and write a block, by eighths from 64 KiB to this size, for the
 *                   first time
 *   memory          bytes resident for each byte of 300000 live blocks of 16 to 2063 bytes
 *
 * The work is divided into pieces of some milliseconds. The figure is the CPU time of the fastest
 * piece, which other work on the machine affected least (fill: the median; churn: wall time).
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECES 60
#define PIECES_LEAST 5
#define ENOUGH_NS 3e8 /* time of all pieces; slow allocators get fewer pieces */
#define FILLS 15
#define THREADS_MAX 64

static long number;

static double clock_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static double cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static double quickest(void (*piece)(void *), void *closure, long count)
{
    double best = 1e18, all = 0;
    piece(closure);
    for (int i = 0; i < PIECES && (i < PIECES_LEAST || all < ENOUGH_NS); i++) {
        const double start = cpu_ns();
        piece(closure);
        const double took = cpu_ns() - start;
        best = took < best ? took : best;
        all += took;
    }
    return best / (double)count;
}

static void on_threads(long count, void *(*run)(void *), double *ret)
{
    pthread_t threads[THREADS_MAX];
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, &ret[i]))
            exit(1);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void pairs(void *size)
{
    for (long i = 0; i < 20000; i++) {
        char *block = malloc(*(size_t *)size);
        *(volatile char *)block = 1;
        free(block);
    }
}

static double kind_pair(void)
{
    size_t size = (size_t)number;
    return quickest(pairs, &size, 20000);
}

struct mixture {
    uint32_t seed, least, spread;
    size_t slots;
    void **slot;
};

#define MIXES 20000

static void mix(void *closure)
{
    struct mixture *m = closure;
    for (long i = 0; i < MIXES; i++) {
        m->seed = m->seed * 1664525 + 1013904223;
        void **slot = &m->slot[(m->seed >> 16) % m->slots];
        free(*slot);
        char *block = malloc(m->least + (m->seed >> 5) % m->spread);
        *(volatile char *)block = 1;
        *slot = block;
    }
}

static void *mix_on_thread(void *ret, struct mixture mixture)
{
    mixture.seed = (uint32_t)(uintptr_t)ret;
    mixture.slot = calloc(mixture.slots, sizeof(*mixture.slot));
    *(double *)ret = quickest(mix, &mixture, MIXES);
    return NULL;
}

static void *mix_small(void *ret)
{
    return mix_on_thread(ret, (struct mixture){.least = 16, .spread = 2048, .slots = 1000});
}

static void *mix_large(void *ret)
{
    return mix_on_thread(ret, (struct mixture){.least = 32 << 10, .spread = 1 << 20, .slots = 16});
}

static double mean_of_threads(void *(*run)(void *))
{
    double ns[THREADS_MAX], sum = 0;
    on_threads(number, run, ns);
    for (long i = 0; i < number; i++)
        sum += ns[i];
    return sum / (double)number;
}

static double kind_mixed(void)
{
    return mean_of_threads(mix_small);
}

static double kind_large(void)
{
    return mean_of_threads(mix_large);
}

#define RING 4096
#define PASSES 50000

static void *ring[RING];
static double consumer_ns;

static void *consume(void *arg)
{
    (void)arg;
    const double start = cpu_ns();
    for (long i = 0; i < PASSES; i++) {
        void *block;
        while (!(block = __atomic_exchange_n(&ring[i % RING], NULL, __ATOMIC_ACQ_REL)))
            sched_yield();
        free(block);
    }
    consumer_ns += cpu_ns() - start;
    return NULL;
}

static double kind_pass(void)
{
    double best = 1e18;
    for (int round = 0; round < 8; round++) {
        pthread_t thread;
        consumer_ns = 0;
        if (pthread_create(&thread, NULL, consume, NULL))
            exit(1);
        const double start = cpu_ns();
        for (long i = 0; i < PASSES; i++) {
            char *block = malloc((size_t)number);
            *(volatile char *)block = 1;
            while (__atomic_load_n(&ring[i % RING], __ATOMIC_ACQUIRE))
                sched_yield();
            __atomic_store_n(&ring[i % RING], block, __ATOMIC_RELEASE);
        }
        const double took = cpu_ns() - start;
        pthread_join(thread, NULL);
        best = took + consumer_ns < best ? took + consumer_ns : best;
    }
    return best / PASSES;
}

static void *live_briefly(void *arg)
{
    void *blocks[1000];
    (void)arg;
    for (size_t i = 0; i < 1000; i++)
        *(volatile char *)(blocks[i] = malloc(16 + i * 7 % 2048)) = 1;
    for (size_t i = 0; i < 1000; i++)
        free(blocks[i]);
    return NULL;
}

static double kind_churn(void)
{
    double best = 1e18;
    for (int piece = 0; piece < PIECES / 4; piece++) {
        const double start = wall_ns();
        double none;
        for (int i = 0; i < 20; i++)
            on_threads(1, live_briefly, &none);
        const double took = wall_ns() - start;
        best = took < best ? took : best;
    }
    return best / 20 / 1e3;
}

static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static int zeroed;

static void *fill(void *ret)
{
    const size_t size = (size_t)number << 20;
    double took[FILLS];
    const int rounds = number > 64 ? FILLS / 3 : FILLS;
    for (int i = -2; i < rounds; i++) {
        const double start = cpu_ns();
        char *block = zeroed ? calloc(1, size) : malloc(size);
        memset(block, i, size);
        __asm__ volatile("" ::"r"(block) : "memory");
        free(block);
        if (i >= 0)
            took[i] = cpu_ns() - start;
    }
    qsort(took, (size_t)rounds, sizeof(*took), by_size);
    *(double *)ret = took[rounds / 2] / 1e6;
    return NULL;
}

static double kind_fill(void)
{
    double ms;
    fill(&ms);
    return ms;
}

static double kind_zeroed(void)
{
    zeroed = 1;
    return kind_fill();
}

static double kind_grow(void)
{
    const size_t most = (size_t)number << 20;
    const double start = cpu_ns();
    size_t size = 0;
    char *block = NULL;
    for (size_t next = 65536; next <= most; next += next / 8) {
        block = realloc(block, next);
        memset(block + size, 1, next - size);
        size = next;
    }
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
    return (cpu_ns() - start) / 1e6;
}

static double kind_fillother(void)
{
    double ms;
    on_threads(1, fill, &ms);
    return ms;
}

static double resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        exit(1);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double kind_memory(void)
{
    double bytes = 0;
    uint32_t seed = 1;
    const double before = resident();
    for (long i = 0; i < 300000; i++) {
        seed = seed * 1664525 + 1013904223;
        const size_t size = 16 + (seed >> 8) % 2048;
        bytes += (double)size;
        memset(malloc(size), 1, size);
    }
    return (resident() - before) / bytes;
}

static const struct {
    const char *name;
    double (*run)(void);
} kinds[] = {
    {"pair", kind_pair},     {"mixed", kind_mixed},         {"large", kind_large},
    {"pass", kind_pass},     {"churn", kind_churn},         {"fill", kind_fill},
    {"memory", kind_memory}, {"fillother", kind_fillother}, {"zeroed", kind_zeroed},
    {"grow", kind_grow},
};

int main(int argc, char **argv)
{
    number = argc > 2 ? atol(argv[2]) : 0;
    for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(argv[1], kinds[i].name) == 0) {
            printf("%.4f\n", kinds[i].run());
            return 0;
        }
    fprintf(
        stderr,
        "usage: malloc pair|mixed|large|pass|churn|fill|fillother|zeroed|grow|memory [NUMBER]\n");
    return 2;
}
