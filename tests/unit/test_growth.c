/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence about memory that grows: engine/report/growth.c. */
#include "unit.h"

#include "engine/report/report_data.h"

#define MIB ((uint64_t)1 << 20)

static struct gf_growth growth;

/* A reading each 400 ms, in which the program makes ten steps. */
static void add(unsigned i, uint64_t anonymous_mib, uint64_t heap_mib)
{
    const struct gf_growth_point point = {.at_ms = 400 * i,
                                          .steps = 10 * i,
                                          .anonymous = anonymous_mib * MIB,
                                          .heap =
                                              heap_mib == UINT64_MAX ? UINT64_MAX : heap_mib * MIB};

    if (point.at_ms >= growth.next_ms)
        gf_growth_add(&growth, gf_step_marks, &point);
}

static const char *said(void)
{
    static char text[256];

    gf_growth_say(&growth, GF_TEST_INTO(text));
    return text;
}

static void steady_growth_has_a_sentence(void **state)
{
    (void)state;
    growth = (struct gf_growth){.count = 0};
    for (unsigned i = 1; i <= 7; i++)
        add(i, 100 + 20 * i, 20 * i);
    assert_string_equal(said(), ""); /* too short */
    for (unsigned i = 8; i <= 10; i++)
        add(i, 100 + 20 * i, 20 * i);
    assert_string_equal(said(), "host memory grew by 2.0 MiB a step from second 0 to second 4: in "
                                "90 steps by 180 MiB, mostly the heap");
    growth.count = 10;
    growth.next_ms = 0;
    add(11, 305, 190); /* less than a step's growth was freed before the exit */
    assert_non_null(strstr(said(), "to second 4: in 90 steps by 180 MiB"));
    growth.count = 10;
    growth.next_ms = 0;
    add(11, 50, 0); /* all was freed */
    assert_non_null(strstr(said(), "to second 4: in 90 steps by 180 MiB"));
}

static void long_growth_has_a_sentence_without_many_points(void **state)
{
    (void)state;
    growth = (struct gf_growth){.count = 0};
    for (unsigned i = 1; i <= 100000; i++)
        add(i, 1000 + i / 10, 1000);
    assert_true(growth.count <= GF_GROWTH_POINTS);
    assert_non_null(strstr(said(), " bytes a step from second "));
    assert_non_null(strstr(said(), ", mostly other memory than the heap"));
}

static uint64_t cache(unsigned i)
{
    return i < 80 ? 20 * i : 1600;
}

static uint64_t warm_up(unsigned i)
{
    return 2000 - 2000 / i;
}

static uint64_t slow_warm_up(unsigned i)
{
    uint64_t sum = 0;

    for (unsigned k = 1; k <= i; k++)
        sum += 6000 / k;
    return sum;
}

static uint64_t one_buffer(unsigned i)
{
    return i < 70 ? 100 : 1000;
}

static uint64_t garbage(unsigned i)
{
    return 100 + i % 20 * 40;
}

static uint64_t nothing(unsigned i)
{
    return 1000 + i % 2;
}

static void other_memory_has_no_sentence(void **state)
{
    static uint64_t (*const shapes[])(unsigned i) = {cache,      warm_up, slow_warm_up,
                                                     one_buffer, garbage, nothing};
    (void)state;

    for (size_t k = 0; k < GF_ARRAY_LEN(shapes); k++)
        for (unsigned count = 90; count <= 100; count++) {
            growth = (struct gf_growth){.count = 0};
            for (unsigned i = 1; i <= count; i++)
                add(i, shapes[k](i), shapes[k](i));
            assert_string_equal(said(), "");
        }
}

static void the_part_is_named_only_if_it_is_known(void **state)
{
    (void)state;
    growth = (struct gf_growth){.count = 0};
    for (unsigned i = 1; i <= 20; i++)
        add(i, 100 + 20 * i, UINT64_MAX);
    assert_non_null(strstr(said(), "by 380 MiB"));
    assert_null(strstr(said(), "mostly"));
}

static void other_steps_begin_anew(void **state)
{
    const struct gf_growth_point point = {.at_ms = 100000, .steps = 3};
    (void)state;

    growth = (struct gf_growth){.count = 0};
    for (unsigned i = 1; i <= 20; i++)
        add(i, 20 * i, 0);
    gf_growth_add(&growth, gf_step_waits, &point);
    assert_int_equal(growth.count, 1);
    gf_growth_add(&growth, gf_step_waits, &point);
    assert_int_equal(growth.count, 1); /* no further step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_growth_has_a_sentence),
        cmocka_unit_test(long_growth_has_a_sentence_without_many_points),
        cmocka_unit_test(other_memory_has_no_sentence),
        cmocka_unit_test(the_part_is_named_only_if_it_is_known),
        cmocka_unit_test(other_steps_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
