/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates blocks of all sizes by all functions: in batches, in short-lived threads, for other
 * threads, and for copies.
 */
#include "soak.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 300
#define LEAST (2 * sizeof(size_t))
#define MIB ((size_t)1 << 20)

static void *meeting[64]; /* where threads leave blocks for each other */
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned char mark_of(size_t size)
{
    return (unsigned char)(size * 31 + 7);
}

static void mark(unsigned char *block, size_t size)
{
    memcpy(block, &size, sizeof(size));
    memset(block + sizeof(size), mark_of(size), size < 64 ? size - sizeof(size) : 32);
    block[size - 1] = mark_of(size);
}

static size_t check(const unsigned char *block)
{
    size_t size;
    memcpy(&size, block, sizeof(size));
    if (size < LEAST || size > 256 * MIB || block[sizeof(size)] != mark_of(size) ||
        block[size - 1] != mark_of(size) || malloc_usable_size((void *)(uintptr_t)block) < size)
        soak_fail("block %p of %zu bytes was written by somebody else", (const void *)block, size);
    return size;
}

static void *zeroed(size_t size)
{
    unsigned char *block = calloc(1, size);
    for (size_t i = 0; block && i < size; i += size / 16 + 1)
        if (block[i])
            soak_fail("calloc(%zu): byte %zu is %d", size, i, block[i]);
    return block;
}

static void *aligned(size_t size, size_t alignment)
{
    void *block = NULL;
    if (posix_memalign(&block, alignment, size) || (uintptr_t)block % alignment)
        soak_fail("posix_memalign(%zu, %zu)", alignment, size);
    return block;
}

void *soak_new(uint32_t *seed, size_t size)
{
    const uint32_t how = soak_random(seed) % 16;
    size = size < LEAST ? LEAST : size;
    unsigned char *block = how == 0   ? zeroed(size)
                           : how == 1 ? aligned(size, (size_t)16 << soak_random(seed) % 10)
                           : how == 2 ? memalign(48, size)
                                      : malloc(size);
    if (!block)
        soak_fail("no block of %zu bytes", size);
    mark(block, size);
    return block;
}

void soak_free(void *block)
{
    if (block)
        check(block);
    free(block);
}

/* Returns a random size. Most are small, but every size up to 2 MiB occurs. */
static size_t some_size(uint32_t *seed)
{
    const uint32_t scale = soak_random(seed) % 64;
    const unsigned bits = scale < 48 ? 4 + scale % 9 : scale < 60 ? 12 + scale % 6 : 17 + scale % 4;
    return ((size_t)1 << bits) + soak_random(seed) % ((size_t)1 << bits);
}

static void *resized(uint32_t *seed, void *block)
{
    const size_t before = check(block), size = some_size(seed) + LEAST;
    unsigned char *moved = realloc(block, size);
    size_t kept;

    if (!moved)
        soak_fail("no realloc to %zu bytes", size);
    memcpy(&kept, moved, sizeof(kept));
    if (kept != before)
        soak_fail("realloc from %zu to %zu bytes lost the start", before, size);
    mark(moved, size);
    return moved;
}

void soak_some(uint32_t *seed, unsigned count)
{
    void *slot[32] = {NULL};
    for (unsigned i = 0; i < count; i++) {
        void **at = &slot[soak_random(seed) % 32];
        soak_free(*at);
        *at = soak_new(seed, some_size(seed));
    }
    for (unsigned i = 0; i < 32; i++)
        soak_free(slot[i]);
}

void *soak_mix(void *driver)
{
    uint32_t seed = (uint32_t)(uintptr_t)&seed;
    void **slot = calloc(SLOTS, sizeof(*slot));

    for (unsigned i = 0; !soak_over; i++) {
        void **at = &slot[soak_random(&seed) % SLOTS];
        if (*at && soak_random(&seed) % 8 == 0) {
            *at = resized(&seed, *at);
        } else {
            soak_free(*at);
            *at = soak_random(&seed) % 8 ? soak_new(&seed, some_size(&seed)) : NULL;
        }
        if (i % 512 == 0) {
            __atomic_fetch_add(&soak_tally.mixed, 512, __ATOMIC_RELAXED);
            usleep(1000);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        soak_free(slot[i]);
    free(slot);
    return driver;
}

/* Leaves blocks for other threads, and frees blocks that other threads allocated. */
void *soak_exchange(void *driver)
{
    uint32_t seed = (uint32_t)(uintptr_t)&seed;

    for (unsigned i = 0; !soak_over; i++) {
        void *block = soak_new(&seed, some_size(&seed));
        soak_free(__atomic_exchange_n(&meeting[soak_random(&seed) % 64], block, __ATOMIC_ACQ_REL));
        if (i % 512 == 0) {
            __atomic_fetch_add(&soak_tally.exchanged, 512, __ATOMIC_RELAXED);
            usleep(1000);
        }
    }
    for (unsigned i = 0; i < 64; i++)
        soak_free(__atomic_exchange_n(&meeting[i], NULL, __ATOMIC_ACQ_REL));
    return driver;
}

void *soak_batches(void *driver)
{
    static const size_t sizes[] = {16 * MIB, 64 * MIB, 5 * MIB, 96 * MIB, 1 * MIB, 32 * MIB};

    for (unsigned i = 0; !soak_over; i++) {
        const size_t size = sizes[i % 6];
        char *block = i % 4 == 3 ? calloc(1, size) : malloc(size);
        memset(block, 1, size);
        if (i % 5 == 4) {
            char *moved = realloc(block, size + size / 2);
            if (!moved || moved[size - 1] != 1)
                soak_fail("realloc of a batch");
            block = moved;
        }
        free(block);
        soak_tally.batches++;
        usleep(20000);
    }
    return driver;
}

static void end_of_thread(void *block)
{
    uint32_t seed = 5;
    soak_free(block);
    soak_some(&seed, 20);
}

static void make_key(void)
{
    pthread_key_create(&at_end, end_of_thread);
}

static void *live_briefly(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number;
    pthread_once(&once, make_key);
    pthread_setspecific(at_end, soak_new(&seed, 100));
    soak_some(&seed, 300);
    soak_free(__atomic_exchange_n(&meeting[seed % 64], soak_new(&seed, 5000), __ATOMIC_ACQ_REL));
    return NULL;
}

void *soak_thread_churn(void *driver)
{
    while (!soak_over) {
        pthread_t threads[8];
        for (uintptr_t i = 0; i < 8; i++)
            if (pthread_create(&threads[i], NULL, live_briefly, (void *)(soak_tally.threads + i)))
                soak_fail("no thread");
        for (unsigned i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        soak_tally.threads += 8;
        usleep(5000);
    }
    return driver;
}

/* Uses mappings of its own, and the functions that inspect the whole heap. */
void *soak_mappings(void *driver)
{
    for (unsigned i = 0; !soak_over; i++) {
        const size_t size = (1 + i % 7) * MIB;
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
            soak_fail("no mapping");
        map[size - 1] = 1;
        munmap(map, size);
        if (i % 64 == 0)
            malloc_trim(0);
        if (i % 16 == 0 && mallinfo2().uordblks == 0)
            soak_fail("mallinfo2 sees nothing");
        soak_tally.mappings++;
        usleep(10000);
    }
    return driver;
}

typedef int copy_in_fn(uint64_t, const void *, size_t);
typedef int copy_out_fn(void *, uint64_t, size_t);

void *soak_copies(void *driver)
{
    int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    int (*release)(uint64_t) = (int (*)(uint64_t))dlsym(driver, "cuMemFree_v2");
    int (*current)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    copy_in_fn *in = (copy_in_fn *)dlsym(driver, "cuMemcpyHtoD_v2");
    copy_out_fn *out = (copy_out_fn *)dlsym(driver, "cuMemcpyDtoH_v2");
    void *context;

    if (retain(&context, 0) || current(context))
        soak_fail("no context");
    for (unsigned i = 0; !soak_over; i++) {
        const size_t size = (1 + i % 24) * MIB / 2;
        unsigned char *from = malloc(size), *to = malloc(size);
        uint64_t device;
        memset(from, (int)i, size);
        if (alloc(&device, size) || in(device, from, size) || out(to, device, size) ||
            release(device))
            soak_fail("a copy of %zu bytes failed", size);
        if (memcmp(from, to, size) != 0)
            soak_fail("a copy of %zu bytes came back otherwise", size);
        free(from);
        free(to);
        soak_tally.copies++;
        usleep(30000);
    }
    return driver;
}
