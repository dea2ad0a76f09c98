/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as the compilers of CPython 3.9, 3.10 and 3.11 write them. */
#include "unit.h"

#include "base/pystack.h"
#include "os/memory.h"

static size_t read_own(void *closure, uintptr_t address, void *ret, size_t size)
{
    (void)closure;
    return gf_safe_read_some(address, ret, size);
}

static const struct gf_pystack_memory own = {read_own, NULL};

#define CODE(first, ...)                                                                           \
    static const unsigned char bytes[] = {__VA_ARGS__};                                            \
    const struct gf_pystack_table code = {&own, (uintptr_t)bytes, sizeof(bytes), first}

static int line(gf_pystack_line_fn *find, const struct gf_pystack_table *code, size_t at)
{
    int ret;
    return find(code, at, &ret) ? ret : -1;
}

static void test_lnotab(void **state)
{
    (void)state;
    CODE(10, 0, 1, 8, 2, 4, 0xff, 255, 0, 45, 100);
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 0), 11);
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 7), 11);
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 8), 13);
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 12), 12);
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 12 + 300), 112);
}

static void test_ranges(void **state)
{
    (void)state;
    CODE(10, 8, 1, 4, 0x80, 6, 0xfe);
    assert_int_equal(line(gf_pystack_line_ranges, &code, 0), 11);
    assert_int_equal(line(gf_pystack_line_ranges, &code, 6), 11);
    assert_int_equal(line(gf_pystack_line_ranges, &code, 8),
                     -1); /* the compiler generated this code, so it has no line */
    assert_int_equal(line(gf_pystack_line_ranges, &code, 12), 9);
    assert_int_equal(line(gf_pystack_line_ranges, &code, 18), -1);
}

static void test_locations(void **state)
{
    (void)state;
    /*
     * Entries, as (line change, code units): one-line (+1, 2), short (0, 1), no columns (-3, 8), no
     * line, long (+70, 1).
     */
    CODE(10, 0x80 | 11 << 3 | 1, 4, 9, 0x80 | 2 << 3, 0x35, 0x80 | 13 << 3 | 7, 7, 0x80 | 15 << 3,
         0x80 | 14 << 3, 0x40 | 12, 2, 0, 0, 1);
    assert_int_equal(line(gf_pystack_line_locations, &code, 0), 11);
    assert_int_equal(line(gf_pystack_line_locations, &code, 2), 11);
    assert_int_equal(line(gf_pystack_line_locations, &code, 4), 11);
    assert_int_equal(line(gf_pystack_line_locations, &code, 6), 8);
    assert_int_equal(line(gf_pystack_line_locations, &code, 20), 8);
    assert_int_equal(line(gf_pystack_line_locations, &code, 22), -1);
    assert_int_equal(line(gf_pystack_line_locations, &code, 24), 8 + 70);
    assert_int_equal(line(gf_pystack_line_locations, &code, 26), -1);
}

static void test_unreadable(void **state)
{
    (void)state;
    const struct gf_pystack_table code = {&own, 8, 100, 1};
    assert_int_equal(line(gf_pystack_line_lnotab, &code, 50), -1);
    assert_int_equal(line(gf_pystack_line_ranges, &code, 50), -1);
    assert_int_equal(line(gf_pystack_line_locations, &code, 50), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lnotab),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_locations),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
