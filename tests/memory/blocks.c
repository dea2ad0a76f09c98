/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks KIND MIB: blocks that come and go; few are live at a time. MIB is the largest size. Prints the peak. With
 * MEMORY_FULL there are more rounds.
 *
 *   rising      one live block, sizes rise to MIB (bucketed batches, growing contexts)
 *   falling     one live block, sizes fall
 *   random      one live block of MIB/8 to MIB
 *   swing       the next block is made before the last is freed; sizes of 3/5 to 1 of MIB
 *   calloc      as random, by calloc
 *   aligned     as random, by posix_memalign and aligned_alloc with alignments of 64 bytes to 4 MiB
 *   border      16 live blocks of 3.9 to 4.1 MiB, replaced at random
 *   middle      MIB in live blocks of 1 to 4 MiB, replaced at random
 *   phases      MIB in blocks of 256 KiB, then of 3 MiB, then of 20 MiB, repeated
 *   crowd       24 threads with a lock: one live block of 1 to 8 MiB at a time in each of 4 threads
 *   threads     MIB threads, one after the other, fill and free 6 MiB
 *   trim        as random, with malloc_trim after each free
 *   passed      a thread allocates, another frees
 *   advised     pairs of blocks of MIB/4 to MIB/2, of which the program advises a part, as numpy does
 */
#include "program.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

static void rising(size_t most, int down)
{
    const size_t steps = (size_t)scaled(20, 8);
    for (size_t i = 1; i <= steps; i++)
        free(touched(most / steps * (down ? steps + 1 - i : i)));
}

static void *aligned(uint64_t *seed, size_t size)
{
    void *block = NULL;
    const size_t alignment = (size_t)64 << chance(seed) % 17;
    if (chance(seed) % 2)
        return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    return posix_memalign(&block, alignment, size) ? NULL : block;
}

static void at_random(size_t most, const char *kind)
{
    uint64_t seed = 1;
    for (int i = 0; i < scaled(16, 4); i++) {
        const size_t size = most / 8 + chance(&seed) % (most - most / 8);
        char *volatile block = kind[0] == 'c'   ? calloc(1, size)
                               : kind[0] == 'a' ? aligned(&seed, size)
                                                : malloc(size);
        if (!block)
            fail("allocation");
        for (size_t at = 0; kind[0] == 'c' && at < size; at += PAGE)
            if (block[at])
                fail("not zero");
        touch(block, size);
        free(block);
        if (kind[0] == 't')
            malloc_trim(0);
    }
}

static void swing(size_t most)
{
    uint64_t seed = 1;
    char *last = NULL;
    for (int i = 0; i < scaled(24, 5); i++) {
        char *next = touched(most / 5 * 3 + chance(&seed) % (most / 5 * 2));
        free(last);
        last = next;
    }
    free(last);
}

static void replaced(size_t count, size_t least, size_t spread, int turns)
{
    char *block[256] = {0};
    uint64_t seed = 1;
    if (count > 256)
        fail("too many blocks");
    for (int i = 0; i < turns; i++) {
        char **at = &block[chance(&seed) % count];
        free(*at);
        *at = touched(least + chance(&seed) % spread);
    }
    for (size_t i = 0; i < count; i++)
        free(block[i]);
}

static void phase(size_t total, size_t size)
{
    const size_t count = total / size;
    char **block = malloc(count * sizeof *block);
    for (size_t i = 0; i < count; i++)
        block[i] = touched(size);
    for (size_t i = 0; i < count; i++)
        free(block[i]);
    free(block);
}

static void phases(size_t total)
{
    for (int i = 0; i < scaled(4, 2); i++) {
        phase(total, 256 << 10);
        phase(total, 3 * MIB);
        phase(total, 20 * MIB);
    }
}

static sem_t places;

static void *one_of_a_crowd(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < scaled(40, 12); i++) {
        sem_wait(&places);
        free(touched(MIB + chance(&seed) % (7 * MIB)));
        sem_post(&places);
    }
    return arg;
}

static void crowd(void)
{
    pthread_t thread[24];
    sem_init(&places, 0, 4);
    for (size_t i = 0; i < 24; i++)
        if (pthread_create(&thread[i], NULL, one_of_a_crowd, (void *)(i + 1)))
            fail("thread");
    for (int i = 0; i < 24; i++)
        pthread_join(thread[i], NULL);
}

static void *one_fill(void *arg)
{
    free(touched(6 * MIB));
    return arg;
}

static void *freed_here(void *block)
{
    free(block);
    return NULL;
}

static void in_threads(int count, int passed)
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, passed ? freed_here : one_fill,
                           passed ? touched(6 * MIB) : NULL))
            fail("thread");
        pthread_join(thread, NULL);
    }
}

/* The advice splits the block's mapping, so that mremap cannot grow it. */
static char *advised(size_t size)
{
    char *block = malloc(size),
         *page = (char *)(((uintptr_t)block + PAGE) & ~((uintptr_t)PAGE - 1));
    madvise(page, size / 2 & ~((size_t)PAGE - 1), MADV_HUGEPAGE);
    madvise(page + (size / 2 & ~((size_t)PAGE - 1)), size / 4 & ~((size_t)PAGE - 1),
            MADV_NOHUGEPAGE);
    touch(block, size);
    return block;
}

static void advised_pairs(size_t most)
{
    for (size_t i = 0; i < (size_t)scaled(14, 7); i++) {
        const size_t size = most / 4 + i * 37 % 80 * (most / 320);
        char *first = advised(size), *second = advised(size);
        free(first);
        free(second);
    }
}

static int run(const char *kind, size_t most)
{
    if (strcmp(kind, "rising") == 0 || strcmp(kind, "falling") == 0)
        rising(most, kind[0] == 'f');
    else if (strcmp(kind, "random") == 0 || strcmp(kind, "calloc") == 0 ||
             strcmp(kind, "aligned") == 0 || strcmp(kind, "trim") == 0)
        at_random(most, kind);
    else if (strcmp(kind, "swing") == 0)
        swing(most);
    else if (strcmp(kind, "border") == 0)
        replaced(16, 4 * MIB - 100000, 200000, scaled(1500, 300));
    else if (strcmp(kind, "middle") == 0)
        replaced(most / (2 * MIB + MIB / 2), MIB, 3 * MIB, scaled(2500, 600));
    else if (strcmp(kind, "phases") == 0)
        phases(most);
    else if (strcmp(kind, "crowd") == 0)
        crowd();
    else if (strcmp(kind, "threads") == 0 || strcmp(kind, "passed") == 0)
        in_threads((int)(most / MIB), kind[0] == 'p');
    else if (strcmp(kind, "advised") == 0)
        advised_pairs(most);
    else
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    start_engine_if_asked();
    if (run(argv[1], (size_t)atoi(argv[2]) * MIB))
        return 2;
    put_result(0);
    return 0;
}
