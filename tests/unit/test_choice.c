/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "host/choice.h"

#define MIB (UINT64_C(1) << 20)

static void first_context_then_memory(void **state)
{
    (void)state;
    struct gf_choice choice = {0};
    assert_false(gf_choice_preset(&choice, 8, -1, -1));
    assert_false(gf_choice_decide(&choice, false));
    assert_true(gf_choice_context(&choice, 0)); /* every rank touches device 0 */
    assert_true(gf_choice_decide(&choice, false));
    assert_int_equal(choice.chosen, 1);
    assert_false(gf_choice_context(&choice, 5));
    assert_false(gf_choice_memory(&choice, 0, 20 * MIB));
    assert_false(gf_choice_memory(&choice, 5, 200 * MIB));
    assert_false(gf_choice_decide(&choice, false));
    assert_true(gf_choice_memory(&choice, 5, 50 * MIB));
    assert_true(gf_choice_decide(&choice, false));
    assert_int_equal(choice.chosen, 1 << 5);
    assert_int_equal(choice.why, gf_choice_why_memory);
    /* the choice is final: further allocations on these devices have no effect */
    gf_choice_memory(&choice, 5, 1000 * MIB);
    gf_choice_memory(&choice, 0, 100 * MIB);
    assert_false(gf_choice_decide(&choice, false));
}

static void several_devices_join(void **state)
{
    (void)state;
    struct gf_choice choice = {0};
    gf_choice_context(&choice, 0);
    gf_choice_decide(&choice, false);
    assert_true(gf_choice_memory(&choice, 0, 300 * MIB));
    assert_false(gf_choice_decide(&choice, false));
    assert_true(choice.settled);
    assert_false(gf_choice_memory(&choice, 3, 100 * MIB));
    assert_false(gf_choice_decide(&choice, false));
    assert_true(gf_choice_memory(&choice, 3, 156 * MIB));
    assert_true(gf_choice_decide(&choice, false));
    assert_int_equal(choice.chosen, 1 | 1 << 3);
    /* The text no longer says that device 0 holds most memory. */
    assert_string_equal(gf_choice_why_text(choice.why), "hold the memory together");
}

static void a_trifle_beside_the_others_does_not_join(void **state)
{
    (void)state;
    struct gf_choice choice = {0};
    gf_choice_memory(&choice, 2, 60 * 1024 * MIB);
    assert_true(gf_choice_decide(&choice, false));
    assert_true(gf_choice_memory(&choice, 0, 300 * MIB));
    assert_false(gf_choice_decide(&choice, false));
    assert_int_equal(choice.chosen, 1 << 2);
}

static void small_models_settle_after_the_time_limit(void **state)
{
    (void)state;
    struct gf_choice choice = {0};
    gf_choice_context(&choice, 0);
    gf_choice_decide(&choice, false);
    assert_false(gf_choice_decide(&choice, true)); /* without allocations there is no choice */
    assert_false(choice.settled);
    gf_choice_memory(&choice, 1, 22 * MIB);
    assert_false(gf_choice_decide(&choice, false));
    assert_true(gf_choice_decide(&choice, true));
    assert_int_equal(choice.chosen, 1 << 1);
}

static void known_before_any_context(void **state)
{
    (void)state;
    struct gf_choice only = {0}, rank = {0}, none = {0};
    assert_true(gf_choice_preset(&only, 1, 3, 8));
    assert_int_equal(only.chosen, 1);
    assert_true(gf_choice_preset(&rank, 8, 5, 8));
    assert_int_equal(rank.chosen, 1 << 5);
    /* The number of ranks is not the number of GPUs. */
    assert_false(gf_choice_preset(&none, 8, 5, 4));
    assert_false(gf_choice_preset(&none, 8, 9, 8));
    assert_false(gf_choice_preset(&none, 8, 2, -1));
    assert_false(gf_choice_preset(&none, 0, 0, 0));
    /* a context on device 0 does not change the rank's choice, but memory on another device does */
    gf_choice_context(&rank, 0);
    assert_false(gf_choice_decide(&rank, false));
    gf_choice_memory(&rank, 6, 256 * MIB);
    assert_true(gf_choice_decide(&rank, false));
    assert_int_equal(rank.chosen, 1 << 6);
}

static void odd_devices_are_ignored(void **state)
{
    (void)state;
    struct gf_choice choice = {0};
    assert_false(gf_choice_context(&choice, -1));
    assert_false(gf_choice_context(&choice, GF_CHOICE_DEVICES));
    assert_false(gf_choice_memory(&choice, 1000, 300 * MIB));
    assert_false(gf_choice_decide(&choice, true));
    assert_int_equal(choice.chosen, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_context_then_memory),
        cmocka_unit_test(several_devices_join),
        cmocka_unit_test(a_trifle_beside_the_others_does_not_join),
        cmocka_unit_test(small_models_settle_after_the_time_limit),
        cmocka_unit_test(known_before_any_context),
        cmocka_unit_test(odd_devices_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
