/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fmt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SAME_AS_PRINTF(...)                                                                        \
    do {                                                                                           \
        char mine[128], theirs[128];                                                               \
        const int m = gf_fmt(mine, sizeof(mine), __VA_ARGS__);                                     \
        const int t = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                               \
        assert_string_equal(mine, theirs);                                                         \
        assert_int_equal(m, t);                                                                    \
    } while (0)

static void agrees_with_printf(void **state)
{
    (void)state;
    SAME_AS_PRINTF("%d %d %d", 0, -1, INT32_MIN);
    SAME_AS_PRINTF("%5d|%-5d|%05d|%05d", 42, 42, 42, -42);
    SAME_AS_PRINTF("%u %x %lu %llx %zu", 7u, 255u, 1ul << 40, 1ull << 63, sizeof(int));
    SAME_AS_PRINTF("%s|%10s|%-10s|%.2s|%.*s", "abc", "abc", "abc", "abc", 1, "abc");
    SAME_AS_PRINTF("%c%%%p", 'x', (void *)0x1234);
    SAME_AS_PRINTF("%ld %lld %zd", -5l, -6ll, (ssize_t)-7);
}

static void cuts_off_and_keeps_errno(void **state)
{
    (void)state;
    char small[4];
    errno = ENOENT;
    assert_int_equal(gf_fmt(small, sizeof(small), "%s", "longer"), 6);
    assert_string_equal(small, "lon");
    assert_int_equal(errno, ENOENT);
    char text[64];
    gf_fmt(text, sizeof(text), "%m");
    assert_string_equal(text, strerror(ENOENT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_printf),
        cmocka_unit_test(cuts_off_and_keeps_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
