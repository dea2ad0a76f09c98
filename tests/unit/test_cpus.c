/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cpus.h"

#include <errno.h>
#include <string.h>

static void round_trips(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "0", "0-3", "0-3,8,10-11", "63-64,127-128", "4095"};
    for (size_t i = 0; i < GF_ARRAY_LEN(lists); i++) {
        struct gf_cpus cpus;
        char text[64];
        assert_int_equal(gf_set_parse(lists[i], &cpus), 0);
        assert_string_equal(gf_set_format(&cpus, text, sizeof(text)), lists[i]);
    }
}

static void refuses_what_is_no_list(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "1-", "-1", "3-1", "1,,2", "1 2", "0x3", ",", "1,"};
    struct gf_cpus cpus, before;
    memset(&cpus, 0x5a, sizeof(cpus));
    before = cpus;
    for (size_t i = 0; i < GF_ARRAY_LEN(bad); i++) {
        assert_int_equal(gf_set_parse(bad[i], &cpus), -EINVAL);
        assert_memory_equal(&cpus, &before, sizeof(cpus));
    }
    assert_int_equal(gf_set_parse("4096", &cpus), -ERANGE);
    assert_int_equal(gf_set_parse("0-99999999999", &cpus), -ERANGE);
}

static void cuts_a_long_list_off(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        size_t size;
        const char *text;
    } rows[] = {{"1,3,5,7,9,11", 13, "1,3,5,7,9,11"},
                {"1,3,5,7,9,11", 12, "1,3,5,7,..."},
                {"1,3,5,7,9,11", 8, "1,3,..."},
                {"1,3,5,7,9,11", 6, "1,..."},
                {"1,3,5,7,9,11", 5, "..."},
                {"256-257,259-260,262", 12, "256-257,..."},
                {"256-257,259-260,262", 16, "256-257,..."},
                {"256-257,259-260,262", 19, "256-257,..."},
                {"256-257,259-260,262", 20, "256-257,259-260,262"},
                {"256-257,259-260,262", 11, "..."},
                {"256-257,259-260,262-270", 20, "256-257,259-260,..."}};
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        struct gf_cpus cpus;
        char text[32];
        memset(text, 'x', sizeof(text));
        assert_int_equal(gf_set_parse(rows[i].list, &cpus), 0);
        assert_string_equal(gf_set_format(&cpus, text, rows[i].size), rows[i].text);
        assert_int_equal(text[rows[i].size], 'x');
    }
}

static void set_algebra(void **state)
{
    (void)state;
    struct gf_cpus a, b, c;
    gf_set_parse("0-7", &a);
    gf_set_parse("4-11", &b);
    gf_set_and(&c, &a, &b);
    assert_int_equal(gf_set_count(&c), 4);
    assert_true(gf_set_within(&c, &a));
    assert_false(gf_set_within(&a, &c));
    assert_true(gf_set_meet(&a, &b));
    gf_set_or(&c, &a, &b);
    assert_int_equal(gf_set_count(&c), 12);
    assert_int_equal(gf_set_next(&b, 0), 4);
    assert_int_equal(gf_set_next(&b, 12), -1);
    assert_false(gf_set_test(&a, GF_CPUS_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(refuses_what_is_no_list),
        cmocka_unit_test(cuts_a_long_list_off),
        cmocka_unit_test(set_algebra),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
