/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held KIND MIB SECONDS REQUESTS: uses and frees MIB, then waits. With REQUESTS it makes a few small calls each second,
 * as a server does, otherwise it sleeps. Prints what is resident above the start of the program.
 *
 *   block     one block
 *   batches   a block and another of half the size, four times
 *   small     blocks of 100 bytes to 4 KiB
 *   middle    blocks of 256 KiB
 *   medium    blocks of 3 MiB
 *   threads   64 threads that use and free blocks of 32 KiB to 1 MiB, and then wait
 *   turns     the same, one after the other; the threads stay
 *   joined    the same, the threads end
 *   locked    blocks of page-locked memory, freed without munlock (DeepSpeed's pinned buffers)
 *   grown     a block that realloc grew
 *   loop      batches of MIB in blocks of 1 MiB, ten times, beside 3 * MIB that stay
 *   larger    the same in one block
 *   holes     three blocks of a quarter of MIB beside one that the next round replaces, 50 times
 *   sealed    the same, and then frees that one as a process that may install a filter of system calls
 *   foreign   the same, and then frees that one after it has mapped shared memory over a page of it
 */
#include "program.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static void many(size_t total, size_t least, size_t spread)
{
    char **block = malloc((total / least + 1) * sizeof *block);
    size_t count = 0, used = 0;
    for (uint64_t seed = 1; used < total; count++) {
        const size_t size = least + (spread ? chance(&seed) % spread : 0);
        block[count] = touched(size);
        used += size;
    }
    for (size_t i = 0; i < count; i++)
        free(block[i]);
    free(block);
}

#define THREADS 64
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t used, over;
static int in_turns;
static size_t for_each;

static void *work(void *arg)
{
    if (in_turns)
        pthread_mutex_lock(&turn);
    many(for_each, 32 << 10, 992 << 10);
    if (in_turns)
        pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&used);
    if (arg)
        pthread_barrier_wait(&over);
    return NULL;
}

static void in_threads(size_t total, const char *kind)
{
    pthread_t thread;
    for_each = total / THREADS;
    in_turns = strcmp(kind, "threads") != 0;
    pthread_barrier_init(&used, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work, kind[0] == 'j' ? NULL : &turn) ||
            pthread_detach(thread))
            fail("thread");
    pthread_barrier_wait(&used);
}

static void locked(size_t total)
{
    for (size_t i = 1; i <= 3; i++) {
        void *block;
        if (posix_memalign(&block, 4096, total / 4 * i) || mlock(block, total / 4 * i))
            fail("mlock");
        free(block);
    }
    malloc_trim(0);
}

static void beside_live(size_t size, int one)
{
    static char *live[4096];
    for (size_t i = 0; i < 3 * size / MIB && i < 4096; i++)
        live[i] = touched(MIB);
    for (int i = 0; i < 10; i++)
        if (one)
            free(touched(size));
        else
            many(size, MIB, 0);
}

static char *beside_newest(size_t size)
{
    char *newest = NULL, *block[3];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 3; i++)
            block[i] = touched(size);
        char *const next = touched(size);
        free(newest);
        newest = next;
        for (int i = 0; i < 3; i++)
            free(block[i]);
    }
    return newest;
}

/* The heap returns these blocks to the kernel: what is below them is a hole no more. */
static void end_newest(char *newest, bool filtered)
{
    void *const page = (void *)(((uintptr_t)newest + PAGE - 1) / PAGE * PAGE);
    if (filtered ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                 : mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0) == MAP_FAILED)
        fail("change");
    free(newest);
}

static int use(const char *kind, size_t size)
{
    if (strcmp(kind, "block") == 0)
        free(touched(size));
    else if (strcmp(kind, "batches") == 0)
        for (int i = 0; i < 4; i++) {
            char *first = touched(size), *second = touched(size / 2);
            free(first);
            free(second);
        }
    else if (strcmp(kind, "small") == 0)
        many(size, 100, 4000);
    else if (strcmp(kind, "middle") == 0)
        many(size, 256 << 10, 0);
    else if (strcmp(kind, "medium") == 0)
        many(size, 3 * MIB, 0);
    else if (strcmp(kind, "threads") == 0 || strcmp(kind, "turns") == 0 ||
             strcmp(kind, "joined") == 0)
        in_threads(size, kind);
    else if (strcmp(kind, "loop") == 0 || strcmp(kind, "larger") == 0)
        beside_live(size, kind[1] == 'a');
    else if (strcmp(kind, "holes") == 0)
        beside_newest(size / 4);
    else if (strcmp(kind, "sealed") == 0 || strcmp(kind, "foreign") == 0)
        end_newest(beside_newest(size / 4), kind[0] == 's');
    else if (strcmp(kind, "locked") == 0)
        locked(size);
    else if (strcmp(kind, "grown") == 0) {
        char *block = touched(MIB);
        for (size_t have = MIB; have < size; have += have / 8)
            touch(block = realloc(block, have + have / 8), have + have / 8);
        free(block);
    } else
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    start_engine_if_asked();
    const long before = kib_of("self", "status", "VmRSS");
    if (use(argv[1], (size_t)atoi(argv[2]) * MIB))
        return 2;
    for (int i = 0; i < atoi(argv[3]); i++) {
        sleep(1);
        for (int k = 0; k < (atoi(argv[4]) ? 10 : 0); k++) {
            void *volatile block = malloc(100);
            free(block);
        }
    }
    put_result((double)(kib_of("self", "status", "VmRSS") - before) / 1024);
    return 0;
}
