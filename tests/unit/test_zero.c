/* SPDX-License-Identifier: Apache-2.0 */
/* Tests each function to read a page that this machine can run. The library uses one of them. */
#include "unit.h"

#include "base/base.h"
#include "engine/transfer/pinned/kept_mapping.h"

#include <string.h>

#include <sys/mman.h>

#define PAGE GF_ZERO_PAGE
#define PAGES 5
#define AROUND 64

static unsigned char space[PAGE * (PAGES + 2)] __attribute__((aligned(4096)));

static bool all_are(const unsigned char *at, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}

/* Zeroes a range that begins in the second page. The bytes around the range stay. */
static void assert_zeroes(size_t offset, size_t bytes)
{
    unsigned char *at = space + PAGE + offset;
    gf_zero((char *)at, bytes);
    assert_true(all_are(at, bytes, 0));
    assert_true(all_are(at - AROUND, AROUND, 0xee));
    assert_true(all_are(at + bytes, AROUND, 0xee));
}

static void every_end(void **state)
{
    static const size_t sizes[] = {
        0, 1, 255, 256, 4095, 4096, 4097, 2 * PAGE, 3 * PAGE + 256, 4 * PAGE - 1};
    static const size_t offsets[] = {0, 1, 32, 256, 4095};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(sizes); i++)
        for (size_t k = 0; k < GF_ARRAY_LEN(offsets); k++) {
            memset(space, 0xee, sizeof(space));
            assert_zeroes(offsets[k], sizes[i]);
        }
}

/* A page with one bit set is zeroed, wherever the bit is. */
static void one_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAGE; i++) {
        memset(space, 0xee, sizeof(space));
        memset(space + PAGE, 0, 3 * PAGE);
        space[PAGE + PAGE + i] = (unsigned char)(1u << i % 8);
        assert_zeroes(0, 3 * PAGE);
    }
}

static void assert_sees(bool (*is_zero)(const char *))
{
    memset(space, 0, sizeof(space));
    assert_true(is_zero((const char *)space));
    for (size_t i = 0; i < PAGE; i++) {
        space[i] = 0x80;
        assert_false(is_zero((const char *)space));
        space[i] = 0;
    }
    space[PAGE] = 1; /* this byte is in the next page */
    assert_true(is_zero((const char *)space));
}

static void every_way(void **state)
{
    size_t count;
    const struct gf_zero_way *ways = gf_zero_ways(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        if (ways[i].can_run())
            assert_sees(ways[i].is_zero_page);
#if defined(__x86_64__)
    assert_int_equal(count, 2);
#endif
}

static bool has_wide_registers(void)
{
    size_t count;
    const struct gf_zero_way *ways = gf_zero_ways(&count);
    return count && ways[count - 1].can_run();
}

/* Pages of zeros are read and not written: the kernel's shared zero page stays mapped. */
static void zero_pages_are_not_written(void **state)
{
    unsigned char *at =
        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(at, MAP_FAILED);
    if (!has_wide_registers()) {
        munmap(at, 4 * PAGE);
        skip_because("the processor has no wide registers");
    }
    assert_int_equal(mprotect(at, 4 * PAGE, PROT_READ), 0);
    gf_zero((char *)at, 4 * PAGE); /* a write would fault */
    assert_true(all_are(at, 4 * PAGE, 0));
    munmap(at, 4 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_end),
        cmocka_unit_test(one_bit),
        cmocka_unit_test(every_way),
        cmocka_unit_test(zero_pages_are_not_written),
    };
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
