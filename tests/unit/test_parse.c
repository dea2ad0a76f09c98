/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/parse.h"

#include <errno.h>

static void sizes(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_int_equal(gf_parse_size("64", &value), 0);
    assert_int_equal(value, 64);
    assert_int_equal(gf_parse_size("64k", &value), 0);
    assert_int_equal(value, 64 << 10);
    assert_int_equal(gf_parse_size("2MiB", &value), 0);
    assert_int_equal(value, 2 << 20);
    assert_int_equal(gf_parse_size("3GB", &value), 0);
    assert_int_equal(value, UINT64_C(3) << 30);
    assert_int_equal(gf_parse_size("5B", &value), 0);
    assert_int_equal(value, 5);
}

static void refusals_leave_the_value(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_int_equal(gf_parse_size("", &value), -EINVAL);
    assert_int_equal(gf_parse_size("M", &value), -EINVAL);
    assert_int_equal(gf_parse_size("1Mx", &value), -EINVAL);
    assert_int_equal(gf_parse_size("-1", &value), -EINVAL);
    assert_int_equal(gf_parse_size("99999999999999T", &value), -ERANGE);
    assert_int_equal(gf_parse_u64("18446744073709551616", &value), -ERANGE);
    assert_int_equal(gf_parse_u64("1 ", &value), -EINVAL);
    assert_int_equal(value, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(refusals_leave_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
