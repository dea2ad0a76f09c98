/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "host/reclaim_policy.h"

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)

/* Plenty of headroom, and a program that fills and frees 256 MiB. */
static struct gf_reclaim_reading calm(uint64_t ms)
{
    return (struct gf_reclaim_reading){
        .now_ns = ms * MS,
        .kept = 300 * MIB,
        .headroom = {.bytes = 8192 * MIB},
        .pressure = {.stalled_us = 7, .limited = 3, .killed = 0},
    };
}

static bool second_purges(struct gf_reclaim_reading second)
{
    struct gf_reclaim reclaim = {0};
    const struct gf_reclaim_reading first = calm(1000);
    assert_false(gf_reclaim_feed(&reclaim, &first));
    return gf_reclaim_feed(&reclaim, &second);
}

static void leaves_a_program_alone(void **state)
{
    (void)state;
    struct gf_reclaim reclaim = {0};
    for (uint64_t ms = 1000; ms < 20000; ms += 100) {
        const struct gf_reclaim_reading now = calm(ms);
        assert_false(gf_reclaim_feed(&reclaim, &now));
    }
}

/* In a group that reads files, the page cache repeatedly reaches the group's limit. */
static void purges_at_the_limit_without_headroom(void **state)
{
    (void)state;
    struct gf_reclaim_reading now = calm(1100);
    now.pressure.limited += 5;
    assert_false(second_purges(now));
    now.headroom.bytes = 200 * MIB;
    assert_true(second_purges(now));
}

static void purges_under_pressure(void **state)
{
    (void)state;
    struct gf_reclaim_reading now = calm(1100);
    now.headroom.bytes = 299 * MIB;
    now.pressure.stalled_us += 9000; /* of 100000 */
    assert_false(second_purges(now));
    now.pressure.stalled_us += 2000;
    assert_true(second_purges(now));
    now.headroom.bytes = 301 * MIB;
    assert_false(second_purges(now));

    now = calm(1100);
    now.pressure.killed = 1;
    assert_true(second_purges(now));

    now = calm(1100);
    now.headroom.bytes = 149 * MIB; /* less than half of the kept memory */
    assert_true(second_purges(now));
    now.kept = 31 * MIB; /* too little to purge */
    now.headroom.bytes = MIB;
    assert_false(second_purges(now));
}

static void purges_once_a_second_at_most(void **state)
{
    (void)state;
    struct gf_reclaim reclaim = {0};
    unsigned given = 0;
    for (uint64_t ms = 1000; ms < 5000; ms += 100) {
        struct gf_reclaim_reading now = calm(ms);
        now.headroom.bytes = 0;
        given += gf_reclaim_feed(&reclaim, &now);
    }
    assert_int_equal(given, 4);
}

static void decides_without_unknown_counters(void **state)
{
    (void)state;
    struct gf_reclaim reclaim = {0};
    for (uint64_t ms = 1000; ms < 2000; ms += 100) {
        struct gf_reclaim_reading now = calm(ms);
        now.headroom.bytes = GF_HEADROOM_UNKNOWN;
        now.pressure = (struct gf_pressure){GF_PRESSURE_UNKNOWN, GF_PRESSURE_UNKNOWN,
                                            GF_PRESSURE_UNKNOWN, NULL, NULL};
        if (ms == 1500) /* a statistics file that appears later must not count as pressure */
            now.pressure = (struct gf_pressure){UINT64_MAX / 2, 99, 99, "", ""};
        assert_false(gf_reclaim_feed(&reclaim, &now));
    }
}

/*
 * While the program kept little memory, readings did not count. They still do not count when it
 * keeps memory again.
 */
static void rests_while_little_is_kept(void **state)
{
    (void)state;
    struct gf_reclaim reclaim = {0};
    struct gf_reclaim_reading now = calm(1000);
    gf_reclaim_feed(&reclaim, &now);
    gf_reclaim_rest(&reclaim);
    now = calm(9000);
    now.headroom.bytes = 200 * MIB;
    now.pressure.stalled_us += 8000000;
    now.pressure.limited += 5;
    assert_false(gf_reclaim_feed(&reclaim, &now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_a_program_alone),
        cmocka_unit_test(purges_at_the_limit_without_headroom),
        cmocka_unit_test(purges_under_pressure),
        cmocka_unit_test(purges_once_a_second_at_most),
        cmocka_unit_test(decides_without_unknown_counters),
        cmocka_unit_test(rests_while_little_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
