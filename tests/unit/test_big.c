/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the store of big blocks, in this process, which links the exported malloc family and is in
 * mode replace.
 */
#include "unit.h"

#include "preload/heap/big.h"
#include "preload/heap/heap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Writes a pattern that depends on the address within the block. */
static void mark(char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 512)
        block[at] = (char)(at >> 9 ^ at >> 20);
}

static void is_marked(const char *block, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += 512)
        if (block[at] != (char)(at >> 9 ^ at >> 20))
            fail_msg("offset %zu has other contents", at);
}

static bool is_ours(const char *block)
{
    const uint64_t live = gf_big_live();
    return gf_big_may_own(block) && gf_big_usable_size(block) % 4096 == 0 && live > 0;
}

static size_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        fail_msg("no statm");
    fclose(file);
    return pages * 4096;
}

static void serves_blocks_from_4_mib_on(void **state)
{
    (void)state;
    const uint64_t before = gf_big_live();
    char *small = malloc(4 * MIB - 1), *big = malloc(4 * MIB);
    assert_int_equal(gf_big_live() - before, 4 * MIB);
    assert_true(is_ours(big));
    assert_int_equal(malloc_usable_size(big), 4 * MIB);
    free(small);
    free(big);
    assert_int_equal(gf_big_live(), before);
}

static void grows_and_shrinks_without_a_copy(void **state)
{
    (void)state;
    size_t size = 5 * MIB;
    char *block = malloc(size);
    mark(block, 0, size);
    for (int i = 0; i < 30; i++) {
        const size_t larger = size + size / 8;
        block = realloc(block, larger);
        assert_non_null(block);
        assert_true(is_ours(block) && malloc_usable_size(block) >= larger);
        is_marked(block, 0, size);
        mark(block, 0, larger);
        size = larger;
    }
    assert_true(resident() < size + size / 4);
    block = realloc(block, 10 * MIB);
    is_marked(block, 0, 10 * MIB);
    assert_int_equal(malloc_usable_size(block), 10 * MIB);
    block = realloc(block, MIB); /* becomes a block of jemalloc */
    is_marked(block, 0, MIB);
    block = realloc(block, 20 * MIB);
    is_marked(block, 0, MIB);
    assert_true(is_ours(block));
    char *volatile same = block; /* the compiler assumes that realloc frees it */
    errno = 0;
    assert_null(realloc(same, (size_t)PTRDIFF_MAX));
    assert_int_equal(errno, ENOMEM);
    is_marked(same, 0, MIB);
    assert_null(realloc(same, 0));
}

/* The program protects a part of the block, so the kernel cannot move it as a whole. */
static void copies_a_block_that_was_split(void **state)
{
    (void)state;
    char *block = malloc(8 * MIB);
    mark(block, 0, 8 * MIB);
    assert_int_equal(madvise(block + 2 * MIB, MIB, MADV_DONTFORK), 0);
    block = realloc(block, 64 * MIB);
    assert_non_null(block);
    is_marked(block, 0, 8 * MIB);
    mark(block, 0, 64 * MIB);
    free(block);
}

static void calloc_is_zero(void **state)
{
    (void)state;
    const size_t sizes[] = {5 * MIB, 7 * MIB + 4096, 6 * MIB};
    for (int round = 0; round < 4; round++)
        for (size_t i = 0; i < GF_ARRAY_LEN(sizes); i++) {
            char *block = malloc(sizes[i]);
            memset(block, 1, sizes[i]);
            free(block);
            block = calloc(1, sizes[i]);
            for (size_t at = 0; at < sizes[i]; at++)
                if (block[at])
                    fail_msg("offset %zu of %zu is not zero", at, sizes[i]);
            memset(block, 2, sizes[i]);
            free(block);
        }
}

static void aligns(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= 64 * MIB; alignment *= 2) {
        void *first = NULL;
        assert_int_equal(posix_memalign(&first, alignment, 5 * MIB), 0);
        void *second = memalign(alignment, 5 * MIB), *third = aligned_alloc(alignment, 5 * MIB);
        assert_int_equal(((uintptr_t)first | (uintptr_t)second | (uintptr_t)third) % alignment, 0);
        memset(first, 1, 5 * MIB);
        memset(second, 1, 5 * MIB);
        memset(third, 1, 5 * MIB);
        assert_true(malloc_usable_size(first) >= 5 * MIB);
        free(first);
        free(second);
        free(third);
    }
    void *none = &none;
    assert_int_equal(posix_memalign(&none, 24, 5 * MIB), EINVAL);
    assert_ptr_equal(none, &none);
}

/* At most 4096 blocks have mappings of their own. */
static void many_blocks(void **state)
{
    (void)state;
    static void *blocks[5000];
    const uint64_t before = gf_big_live();
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++) {
        blocks[i] = malloc(4 * MIB);
        if (!blocks[i])
            skip_because("20 GiB of address space are not available");
    }
    assert_int_equal((gf_big_live() - before) / (4 * MIB), 4096);
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++)
        free(blocks[i]);
    assert_int_equal(gf_big_live(), before);
}

/* Blocks that took a larger kept mapping, or that shrank a little, hold few pages that they do not need. */
static void wastes_little(void **state)
{
    (void)state;
    char *blocks[100], *shrunk[100];
    const uint64_t before = gf_big_live();

    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++) {
        char *volatile larger = malloc(5 * MIB);
        free(larger);
        blocks[i] = malloc(4 * MIB);
        shrunk[i] = realloc(malloc(5 * MIB), 5 * MIB - MIB / 4);
        assert_int_equal(malloc_usable_size(blocks[i]), 4 * MIB);
        assert_int_equal(malloc_usable_size(shrunk[i]), 5 * MIB - MIB / 4);
    }
    assert_true(gf_big_live() - before <= GF_ARRAY_LEN(blocks) * (9 * MIB - MIB / 4) + 4 * MIB);
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++) {
        free(blocks[i]);
        free(shrunk[i]);
    }
    malloc_trim(0);
    char *volatile larger = malloc(5 * MIB);
    free(larger);
    larger = malloc(4 * MIB);
    assert_int_equal(gf_big_live() - before, 5 * MIB); /* reuse is cheap while the waste is small */
    free(larger);
}

static void statistics_count_it(void **state)
{
    (void)state;
    const struct mallinfo2 before = mallinfo2();
    char *volatile block = malloc(100 * MIB);
    assert_int_equal(mallinfo2().uordblks - before.uordblks, 100 * MIB);
    free(block);
    assert_true(mallinfo2().fordblks >= 4 * MIB);
    assert_int_equal(malloc_trim(0), 1);
    assert_int_equal(malloc_trim(0), 0);
    assert_true(mallinfo2().uordblks < before.uordblks + MIB);
}

static void a_locked_block_is_returned(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("the test locks 64 MiB, as root");
    const size_t before = resident();
    char *block = malloc(32 * MIB), *small[16];
    assert_int_equal(mlock(block, 32 * MIB), 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(small); i++)
        assert_int_equal(mlock(small[i] = malloc(2 * MIB), 2 * MIB), 0);
    free(block);
    for (size_t i = 0; i < GF_ARRAY_LEN(small); i++)
        free(small[i]);
    malloc_trim(0);
    assert_true(resident() < before + 2 * MIB);
}

static void *torture(void *seed_)
{
    unsigned seed = (unsigned)(uintptr_t)seed_;
    char *blocks[6] = {0};
    size_t sizes[6] = {0};

    for (int i = 0; i < 300; i++) {
        seed = seed * 1103515245 + 12345;
        const unsigned slot = seed >> 16 & 7, op = seed >> 24 & 3;
        const size_t size = 300000 + (seed >> 4) % (12 * MIB);
        if (slot >= 6)
            continue;
        if (blocks[slot])
            is_marked(blocks[slot], 0, sizes[slot]);
        if (op == 1) {
            blocks[slot] = realloc(blocks[slot], size);
            is_marked(blocks[slot], 0, gf_min(sizes[slot], size));
        } else {
            free(blocks[slot]);
            blocks[slot] = op == 2 ? calloc(1, size) : malloc(size);
        }
        mark(blocks[slot], 0, size);
        sizes[slot] = size;
    }
    for (unsigned i = 0; i < 6; i++)
        free(blocks[i]);
    return NULL;
}

static void threads_share_the_pool(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, torture, (void *)(i + 7)), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_blocks_from_4_mib_on),
        cmocka_unit_test(grows_and_shrinks_without_a_copy),
        cmocka_unit_test(copies_a_block_that_was_split),
        cmocka_unit_test(calloc_is_zero),
        cmocka_unit_test(aligns),
        cmocka_unit_test(many_blocks),
        cmocka_unit_test(wastes_little),
        cmocka_unit_test(statistics_count_it),
        cmocka_unit_test(a_locked_block_is_returned),
        cmocka_unit_test(threads_share_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
