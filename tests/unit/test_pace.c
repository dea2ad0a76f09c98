/* SPDX-License-Identifier: Apache-2.0 */
/* Copies are the driver's where it is faster, and are tried again. */
#include "unit.h"

#include "transfer/pace.h"
#include "transfer/tuning.h"

#define MS UINT64_C(1000000)

/* Each test has a kind of its own: what is known stays. */
static const struct gf_copy_kind fast = {gf_direction_h2d, false}, slow = {gf_direction_h2d, true},
                                 changing = {gf_direction_d2h, false}, unseen = {gf_direction_d2h, true};

static void stage(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        gf_pace_staged(kind, bytes, ns);
}

static void drive(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        gf_pace_driver(kind, bytes, ns);
}

/* How many copies in a row are the driver's. */
static unsigned turn(struct gf_copy_kind kind, uint64_t bytes)
{
    unsigned ret = 0;
    while (ret < 100000 && !gf_pace_allows(kind, bytes))
        ret++;
    return ret;
}

static void what_pays_goes_on(void **state)
{
    (void)state;
    drive(fast, GF_MIB(4), 4 * MS, 8);
    stage(fast, GF_MIB(4), 1 * MS, 1000);
    assert_int_equal(turn(fast, GF_MIB(4)), 0);
    stage(fast, GF_MIB(4), 4 * MS, 1000); /* as fast as the driver is fast enough */
    assert_int_equal(turn(fast, GF_MIB(4)), 0);
    stage(fast, GF_MIB(4), 4 * MS, 100);
    stage(fast, GF_MIB(4), 1000 * MS, 1); /* nor does one that was late decide */
    assert_int_equal(turn(fast, GF_MIB(4)), 0);
}

static void what_does_not_is_the_drivers_for_ever_longer(void **state)
{
    unsigned expected = GF_TUNE_PACE_TURN;
    (void)state;
    drive(slow, GF_MIB(1), MS, 8);
    for (unsigned i = 0; i < 12; i++) {
        stage(slow, GF_MIB(1), 2 * MS, GF_TUNE_PACE_TRIALS - 1);
        assert_int_equal(turn(slow, GF_MIB(1)), 0);
        stage(slow, GF_MIB(1), 2 * MS, 1);
        assert_int_equal(turn(slow, GF_MIB(1)), expected);
        expected = gf_min(2 * expected, GF_TUNE_PACE_TURN_MOST);
    }
    stage(slow, GF_MIB(1), MS / 2, GF_TUNE_PACE_SETTLED); /* it pays again: the next turn is short */
    stage(slow, GF_MIB(1), 9 * MS, GF_TUNE_PACE_TRIALS);
    assert_int_equal(turn(slow, GF_MIB(1)), GF_TUNE_PACE_TURN);
}

/* Those under way when the turn was given come back after it: they are no trials of the next. */
static void a_crowd_loses_once(void **state)
{
    (void)state;
    drive(slow, GF_MIB(8), 8 * MS, 8);
    stage(slow, GF_MIB(8), 80 * MS, 3 * GF_TUNE_PACE_TRIALS);
    assert_int_equal(turn(slow, GF_MIB(8)), GF_TUNE_PACE_TURN);
    stage(slow, GF_MIB(8), 80 * MS, GF_TUNE_PACE_TRIALS);
    assert_int_equal(turn(slow, GF_MIB(8)), 2 * GF_TUNE_PACE_TURN);
}

/* The first after a turn finds sleeping helpers and cold caches; the process's very first copy all of that. */
static void a_late_first_one_decides_nothing(void **state)
{
    (void)state;
    drive(fast, GF_MIB(16), 160 * MS, 1);
    drive(fast, GF_MIB(16), 16 * MS, 1);
    for (unsigned i = 0; i < 4; i++) {
        stage(fast, GF_MIB(16), 500 * MS, 1);
        stage(fast, GF_MIB(16), 8 * MS, 2 * GF_TUNE_PACE_TRIALS);
        assert_int_equal(turn(fast, GF_MIB(16)), 0);
        stage(fast, GF_MIB(16), 64 * MS, 1000); /* four times the driver's, not the first one's */
        assert_in_range(turn(fast, GF_MIB(16)), 1, GF_TUNE_PACE_TURN_MOST);
    }
}

/* Of a size that the driver never had it is known what others take: that is enough to try it. */
static void unseen_sizes_are_judged_by_others(void **state)
{
    (void)state;
    drive(unseen, GF_MIB(1), MS / 10, 8);
    stage(unseen, GF_MIB(2), 2 * MS / 10, 100);
    assert_int_equal(turn(unseen, GF_MIB(2)), 0);
    stage(unseen, GF_MIB(2), 10 * MS / 10, 20);
    assert_int_equal(turn(unseen, GF_MIB(2)), GF_TUNE_PACE_TURN);
    drive(unseen, GF_MIB(2), 10 * MS / 10, 8); /* as it turns out it takes that, too */
    stage(unseen, GF_MIB(2), 10 * MS / 10, 100);
    assert_int_equal(turn(unseen, GF_MIB(2)), 0);
}

/* CPUs become busy, and the driver slower too: what counts is how it is now. */
static void the_driver_is_judged_as_it_is_now(void **state)
{
    (void)state;
    drive(changing, GF_MIB(2), MS, 8);
    stage(changing, GF_MIB(2), 3 * MS, GF_TUNE_PACE_TRIALS);
    assert_int_equal(turn(changing, GF_MIB(2)), GF_TUNE_PACE_TURN);
    drive(changing, GF_MIB(2), 5 * MS, GF_TUNE_PACE_TURN);
    stage(changing, GF_MIB(2), 3 * MS, 1000);
    assert_int_equal(turn(changing, GF_MIB(2)), 0);
}

static void sizes_are_judged_apart_and_large_ones_never(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        gf_pace_staged(unseen, GF_MIB(32), 1000 * MS);
        gf_pace_staged(unseen, GF_MIB(1) - 1, 1000 * MS);
        gf_pace_staged(unseen, GF_MIB(4), MS); /* with nothing to be compared with */
    }
    stage(unseen, GF_MIB(8), 8 * GF_TUNE_PACE_UNKNOWN_NS + MS, GF_TUNE_PACE_TRIALS);
    assert_int_equal(turn(unseen, GF_MIB(32)), 0);
    assert_int_equal(turn(unseen, GF_MIB(1) - 1), 0);
    assert_int_equal(turn(unseen, GF_MIB(7)), 0);
    assert_int_equal(turn(unseen, GF_MIB(16) - 1), GF_TUNE_PACE_TURN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_pays_goes_on),
        cmocka_unit_test(what_does_not_is_the_drivers_for_ever_longer),
        cmocka_unit_test(a_crowd_loses_once),
        cmocka_unit_test(a_late_first_one_decides_nothing),
        cmocka_unit_test(the_driver_is_judged_as_it_is_now),
        cmocka_unit_test(sizes_are_judged_apart_and_large_ones_never),
        cmocka_unit_test(unseen_sizes_are_judged_by_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
