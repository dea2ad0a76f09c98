/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/heap/mappings.h"

#include <stdio.h>
#include <string.h>

#define PAGES 4096

static struct gf_ranges ranges;

static void expect(const char *text)
{
    char got[256] = "";
    size_t bytes = 0;
    for (size_t i = 0; i < ranges.count; i++) {
        char one[64];
        sprintf(one, "%s%lu+%zu", i ? " " : "", (unsigned long)ranges.at[i].start,
                ranges.at[i].size);
        strcat(got, one);
        bytes += ranges.at[i].size;
    }
    assert_int_equal(ranges.bytes, bytes);
    assert_string_equal(got, text);
}

static int empty(void **state)
{
    (void)state;
    memset(&ranges, 0, sizeof(ranges));
    return 0;
}

static void neighbours_merge(void **state)
{
    (void)state;
    gf_ranges_add(&ranges, 100, 10);
    gf_ranges_add(&ranges, 120, 10);
    expect("100+10 120+10");
    gf_ranges_add(&ranges, 110, 10);
    expect("100+30");
    gf_ranges_add(&ranges, 90, 10);
    gf_ranges_add(&ranges, 10, 5);
    expect("10+5 90+40");
    gf_ranges_add(&ranges, 0, 200);
    expect("0+200");
}

static void parts_can_be_removed(void **state)
{
    (void)state;
    gf_ranges_add(&ranges, 100, 100);
    gf_ranges_remove(&ranges, 130, 10);
    expect("100+30 140+60");
    gf_ranges_remove(&ranges, 90, 20);
    expect("110+20 140+60");
    gf_ranges_remove(&ranges, 190, 100);
    expect("110+20 140+50");
    gf_ranges_remove(&ranges, 130, 10);
    gf_ranges_remove(&ranges, 0, 110);
    expect("110+20 140+50");
    gf_ranges_remove(&ranges, 120, 40);
    expect("110+10 160+30");
    gf_ranges_remove(&ranges, 0, 1000);
    expect("");
    gf_ranges_remove(&ranges, 0, 1000);
    expect("");
}

/* Compares the ranges with a bitmap of pages. */
static void agrees_with_a_bitmap(void **state)
{
    (void)state;
    static unsigned char mapped[PAGES];
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        seed = seed * 1664525 + 1013904223;
        const size_t start = (seed >> 8) % PAGES;
        seed = seed * 1664525 + 1013904223;
        const size_t size = 1 + (seed >> 8) % gf_min((size_t)64, PAGES - start);
        const bool add = seed >> 31;
        memset(mapped + start, add, size);
        if (add)
            gf_ranges_add(&ranges, start, size);
        else
            gf_ranges_remove(&ranges, start, size);
        if (round % 100)
            continue;
        size_t at = 0, bytes = 0;
        for (size_t i = 0; i < ranges.count; i++) {
            assert_true(ranges.at[i].start > at || i == 0);
            for (; at < ranges.at[i].start; at++)
                assert_false(mapped[at]);
            for (; at < ranges.at[i].start + ranges.at[i].size; at++)
                assert_true(mapped[at]);
            bytes += ranges.at[i].size;
        }
        assert_int_equal(ranges.bytes, bytes);
        for (; at < PAGES; at++)
            assert_false(mapped[at]);
    }
    assert_false(ranges.overflowed);
}

static void records_an_overflow(void **state)
{
    (void)state;
    for (size_t i = 0; i < GF_RANGES_MAX; i++)
        gf_ranges_add(&ranges, 10 * i, 5);
    assert_false(ranges.overflowed);
    gf_ranges_add(&ranges, 5, 5); /* merges two: one more fits */
    gf_ranges_add(&ranges, 10 * GF_RANGES_MAX, 5);
    assert_false(ranges.overflowed);
    gf_ranges_add(&ranges, 10 * GF_RANGES_MAX + 10, 5);
    assert_true(ranges.overflowed);
    assert_int_equal(ranges.count, GF_RANGES_MAX);
    ranges.overflowed = false;
    gf_ranges_remove(&ranges, 22, 1); /* splits one in two */
    assert_true(ranges.overflowed);
    assert_int_equal(ranges.count, GF_RANGES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(neighbours_merge, empty),
        cmocka_unit_test_setup(parts_can_be_removed, empty),
        cmocka_unit_test_setup(agrees_with_a_bitmap, empty),
        cmocka_unit_test_setup(records_an_overflow, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
