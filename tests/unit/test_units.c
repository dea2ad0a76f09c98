/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/transfer/pinned/units.h"

#include <stdlib.h>
#include <string.h>

/* Bytes stand for pages here. */
static const struct gf_units cases[] = {
    {1, 1, 1},    {7, 7, 2},    {8, 16, 16},      {100, 25, 1},     {100, 30, 4},
    {96, 24, 3},  {97, 24, 3},  {4096, 1024, 16}, {4095, 1024, 16}, {4000, 1024, 24},
    {64, 16, 16}, {65, 16, 32}, {1000, 1000, 3},
};

static void each_byte_is_in_one_unit(void **state)
{
    (void)state;
    for (size_t c = 0; c < GF_ARRAY_LEN(cases); c++) {
        const struct gf_units *units = &cases[c];
        unsigned char *seen = calloc(1, units->bytes);
        for (uint64_t i = 0; i < gf_units_count(units); i++) {
            size_t start;
            const size_t bytes = gf_units_get(units, i, &start);
            assert_true(bytes <= units->unit);
            assert_true(!bytes || start + bytes <= units->bytes);
            assert_true(!bytes || start / units->mapping == (start + bytes - 1) / units->mapping);
            for (size_t at = start; bytes && at < start + bytes; at++)
                seen[at]++;
        }
        for (size_t at = 0; at < units->bytes; at++)
            assert_int_equal(seen[at], 1);
        free(seen);
    }
}

static void first_units_are_as_few_as_possible(void **state)
{
    const struct gf_units *units = &cases[7];
    size_t start, sum = 0;
    (void)state;
    assert_int_equal(gf_units_first(units, 0), 0);
    assert_int_equal(gf_units_first(units, units->bytes + 1), gf_units_count(units));
    const uint64_t first = gf_units_first(units, 3001);
    for (uint64_t i = 0; i < first; i++) {
        assert_true(sum < 3001);
        sum += gf_units_get(units, i, &start);
    }
    assert_true(sum >= 3001 && first < gf_units_count(units));
}

/*
 * A walk from the start of the range, which is several times as fast as all threads, begins after
 * thirteen sixteenths. It finds each unit done.
 */
static void walk_from_the_start_finds_the_work_done(void **state)
{
    const struct gf_units *units = &cases[7];
    const uint64_t first = gf_units_first(units, units->bytes / 16 * 13);
    size_t begun = 0;
    (void)state;
    for (uint64_t i = 0; i < gf_units_count(units); i++) {
        size_t start;
        const size_t bytes = gf_units_get(units, i, &start);
        if (i >= first && bytes) {
            const size_t walked = begun * 5;
            assert_true(start >= walked || walked >= units->bytes);
        }
        begun += i >= first ? bytes : 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_in_one_unit),
        cmocka_unit_test(first_units_are_as_few_as_possible),
        cmocka_unit_test(walk_from_the_start_finds_the_work_done),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
