/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/transfer/pinned/pinned_mapping.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_in_one_unit),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
