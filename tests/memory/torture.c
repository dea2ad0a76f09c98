/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torture SECONDS THREADS SEED [MOST_MIB]: calls the malloc family at random, and checks what a program relies on:
 *
 *   - each block keeps its content until it is freed, also across realloc, a fork, and frees by another thread
 *   - calloc's memory is zero; blocks are aligned; usable_size is at least the size, and all of it can be used
 *   - live blocks do not overlap (each word that is checked holds the block's own number and its address' offset)
 *   - failure sets ENOMEM and leaves the block of realloc as it was; with the library, success keeps errno
 *
 * Sizes are near 4 MiB, near multiples of 2 MiB and of pages, and small. Prints the number of calls.
 */
#include "program.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SLOTS 24
#define SHARED 16

struct block {
    char *data;
    size_t size;
    uint64_t number;
};

static size_t most;
static int
    library; /* glibc may change errno although the call succeeds, and libjemalloc has no mallinfo2 */
static double end_at;
static atomic_ulong calls, numbers = 1;
static _Atomic(struct block *) shared[SHARED];

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void bad(const char *what, const struct block *block, size_t at)
{
    fprintf(stderr, "torture: %s: block %p of %zu bytes, at %zu\n", what, (void *)block->data,
            block->size, at);
    abort();
}

/* The places of a block that hold its mark: both ends, one word of each page near them, and each 64th page. */
static size_t next_place(const struct block *block, size_t at)
{
    const size_t last = (block->size - 8) & ~(size_t)7;
    size_t next =
        at < 8 * PAGE || at + 8 * PAGE > last ? at + PAGE - (at ? 8 : 16) : at + 61 * PAGE;
    next &= ~(size_t)7;
    return at == last ? SIZE_MAX : next > last ? last : next;
}

static void mark(const struct block *block)
{
    if (block->size < 16) {
        memset(block->data, (int)block->number, block->size);
        return;
    }
    for (size_t at = 0; at != SIZE_MAX; at = next_place(block, at))
        memcpy(block->data + at, &(uint64_t){block->number * 0x9e3779b97f4a7c15u + at}, 8);
}

static void check_up_to(const struct block *block, size_t size, const char *when)
{
    uint64_t word;
    if (block->size < 16) {
        for (size_t i = 0; i < block->size && i < size; i++)
            if (block->data[i] != (char)block->number)
                bad(when, block, i);
        return;
    }
    for (size_t at = 0; at != SIZE_MAX && at + 8 <= size; at = next_place(block, at)) {
        memcpy(&word, block->data + at, 8);
        if (word != block->number * 0x9e3779b97f4a7c15u + at)
            bad(when, block, at);
    }
}

static size_t some_size(uint64_t *seed)
{
    static const size_t near[] = {4 * MIB,  2 * MIB, 6 * MIB,  8 * MIB,  16 * MIB,
                                  32 * MIB, MIB,     64 << 10, 256 << 10};
    const size_t kind = chance(seed) % 16;
    if (kind < 5)
        return 1 + chance(seed) % 3000;
    if (kind < 11) {
        const size_t size = near[chance(seed) % 9],
                     off = chance(seed) % 3 ? chance(seed) % 17 : chance(seed) % 20000;
        return chance(seed) % 2 ? size + off : size - off;
    }
    if (kind < 15)
        return MIB + chance(seed) % (11 * MIB);
    return 1 + chance(seed) % most;
}

static void check_new(const struct block *block, size_t alignment, int zeroed)
{
    if ((uintptr_t)block->data % alignment)
        bad("not aligned", block, alignment);
    const size_t usable = malloc_usable_size(block->data);
    if (usable < block->size || usable > block->size + block->size / 2 + 3 * MIB)
        bad("usable size", block, usable);
    for (size_t at = 0; zeroed && at < block->size; at += at % 3 ? 8 : 499)
        if (block->data[at])
            bad("not zero", block, at);
    if (zeroed && block->data[block->size - 1])
        bad("not zero", block, block->size - 1);
    if (usable > block->size)
        memset(block->data + block->size, 0xee,
               usable - block->size > 64 ? 64 : usable - block->size);
    block->data[usable - 1] = (char)0xee;
}

static void make(struct block *block, uint64_t *seed)
{
    const size_t size = some_size(seed), kind = chance(seed) % 6,
                 page = (size_t)sysconf(_SC_PAGESIZE);
    size_t alignment = 1;
    void *data = NULL;
    errno = 77;
    if (kind == 0)
        data = calloc(1, size);
    else if (kind == 1) {
        alignment = (size_t)16 << chance(seed) % 19;
        if (posix_memalign(&data, alignment, size))
            data = NULL;
    } else if (kind == 2) {
        alignment = (size_t)16 << chance(seed) % 19;
        data = memalign(alignment, size);
    } else if (kind == 3 && chance(seed) % 8 == 0)
        data = valloc(size), alignment = page;
    else
        data = malloc(size), alignment = size < 16 ? 8 : 16;
    *block = (struct block){data, size, atomic_fetch_add(&numbers, 1)};
    if (!data)
        bad("no memory", block, 0);
    if (library && errno != 77)
        bad("errno", block, (size_t)errno);
    check_new(block, alignment, kind == 0);
    mark(block);
}

static void drop(struct block *block)
{
    check_up_to(block, block->size, "content before free");
    errno = 78;
    free(block->data);
    if (library && errno != 78)
        bad("errno of free", block, (size_t)errno);
    block->data = NULL;
}

static void change(struct block *block, uint64_t *seed)
{
    const size_t old = block->size;
    size_t size = chance(seed) % 3 ? some_size(seed) : old + old / 8 + 1;
    size = chance(seed) % 4 ? size : old / 2 + 1;
    size = size > 2 * most ? most : size;
    check_up_to(block, old, "content before realloc");
    if (chance(seed) % 64 == 0) {
        if (realloc(block->data, (size_t)1 << 62) || errno != ENOMEM)
            bad("an impossible size", block, 0);
        check_up_to(block, old, "content after a realloc that failed");
    }
    errno = 79;
    char *data = chance(seed) % 8 ? realloc(block->data, size) : reallocarray(block->data, size, 1);
    if (!data || (library && errno != 79))
        bad("realloc", block, size);
    block->data = data;
    check_up_to(block, old < size ? old : size, "content after realloc");
    block->size = size;
    check_new(block, size < 16 ? 8 : 16, 0);
    mark(block);
}

/* Passes the block to another thread, which frees it. */
static void pass(struct block *block, uint64_t *seed)
{
    struct block *copy = malloc(sizeof *copy);
    *copy = *block;
    block->data = NULL;
    copy = atomic_exchange(&shared[chance(seed) % SHARED], copy);
    if (copy) {
        check_up_to(copy, copy->size, "content of another thread's block");
        drop(copy);
        free(copy);
    }
}

static void step(struct block *slot, uint64_t *seed)
{
    struct block *block = &slot[chance(seed) % SLOTS];
    const size_t kind = chance(seed) % 16;
    atomic_fetch_add(&calls, 1);
    if (!block->data)
        make(block, seed);
    else if (kind < 6)
        change(block, seed);
    else if (kind < 9)
        pass(block, seed);
    else
        drop(block);
    if (kind == 15 && chance(seed) % 64 == 0)
        malloc_trim(0);
    if (library && kind == 14 && chance(seed) % 64 == 0 && mallinfo2().uordblks == 0)
        bad("mallinfo2", block, 0);
}

/* The child checks what it inherited, changes all of it, and goes on for a while. It may neither hang nor change what
 * the parent sees. */
static void in_a_child(struct block *slot, uint64_t *seed)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid < 0)
        return;
    if (pid == 0) {
        alarm(60);
        for (int i = 0; i < SLOTS; i++)
            if (slot[i].data)
                check_up_to(&slot[i], slot[i].size, "content in the child");
        for (int i = 0; i < 30; i++)
            step(slot, seed);
        for (int i = 0; i < SLOTS; i++)
            if (slot[i].data)
                drop(&slot[i]);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status) {
        fprintf(stderr, "torture: a child ended with status %x\n", (unsigned)status);
        abort();
    }
}

static void *work(void *arg)
{
    struct block slot[SLOTS] = {0};
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; now() < end_at; i++) {
        step(slot, &seed);
        if (chance(&seed) % 600 == 0)
            in_a_child(slot, &seed);
        if (chance(&seed) % 500 == 0) /* a thread ends, its blocks stay */
            break;
    }
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].data)
            chance(&seed) % 2 ? drop(&slot[i]) : pass(&slot[i], &seed);
    return NULL;
}

static void *restart(void *arg)
{
    for (uintptr_t seed = (uintptr_t)arg; now() < end_at; seed += 1000) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)seed))
            abort();
        pthread_join(thread, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[64];
    const int count = argc > 3 ? atoi(argv[2]) : 0;
    if (count < 1 || count > 64)
        return 2;
    start_engine_if_asked();
    library = maps_name("libgpufeed.so");
    most = (argc > 4 ? (size_t)atoi(argv[4]) : 48) * MIB;
    end_at = now() + atof(argv[1]);
    for (int i = 1; i < count; i++)
        if (pthread_create(&thread[i], NULL, restart, (void *)(uintptr_t)(atoi(argv[3]) * 100 + i)))
            return 2;
    restart((void *)(uintptr_t)(atoi(argv[3]) * 100));
    for (int i = 1; i < count; i++)
        pthread_join(thread[i], NULL);
    fprintf(stderr, "%lu calls\n", atomic_load(&calls));
    put_result(0);
    return 0;
}
