/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/place/reclaim_policy.h"

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)

/* Plenty of headroom, and a program that fills and frees 256 MiB. */
static struct gf_reclaim_reading calm(uint64_t ms)
{
    return (struct gf_reclaim_reading){
        .now_ns = ms * MS,
        .retained = 300 * MIB,
        .dirty = 256 * MIB,
        .headroom = {.bytes = 8192 * MIB},
        .pressure = {.stalled_us = 7, .limited = 3, .killed = 0},
    };
}

static enum gf_reclaim_step second_step(struct gf_reclaim_reading second)
{
    struct gf_reclaim squeeze = {0};
    const struct gf_reclaim_reading first = calm(1000);
    assert_int_equal(gf_reclaim_feed(&squeeze, &first), gf_reclaim_nothing);
    return gf_reclaim_feed(&squeeze, &second);
}

static void leaves_a_busy_program_alone(void **state)
{
    (void)state;
    struct gf_reclaim squeeze = {0};
    for (uint64_t ms = 1000; ms < 20000; ms += 100) {
        const struct gf_reclaim_reading now = calm(ms);
        assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_nothing);
    }
    assert_int_equal(gf_reclaim_wait(&squeeze), 100 * MS);
}

static void frees_idle_pages_lazily(void **state)
{
    (void)state;
    struct gf_reclaim squeeze = {0};
    struct gf_reclaim_reading now = calm(1000);
    gf_reclaim_feed(&squeeze, &now);
    for (uint64_t ms = 1100; ms < 2000; ms += 100) {
        now = calm(ms);
        now.idle = true;
        assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_nothing);
    }
    now.now_ns = 2000 * MS;
    assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_free_lazily);
    assert_int_equal(gf_reclaim_wait(&squeeze), 500 * MS);
    now.dirty = 0;
    now.now_ns = 2500 * MS;
    assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_nothing);
    now.retained = 0;
    gf_reclaim_feed(&squeeze, &now);
    assert_true(gf_reclaim_wait(&squeeze) == UINT64_MAX);
}

static void frees_lazily_when_headroom_shrinks(void **state)
{
    (void)state;
    struct gf_reclaim_reading now = calm(1100);
    now.headroom.bytes = 513 * MIB;
    assert_int_equal(second_step(now), gf_reclaim_nothing);
    now.headroom.bytes = 511 * MIB;
    assert_int_equal(second_step(now), gf_reclaim_free_lazily);
}

/* In a group that reads files, the page cache repeatedly reaches the group's limit. */
static void frees_lazily_at_the_limit_with_headroom(void **state)
{
    (void)state;
    struct gf_reclaim_reading now = calm(1100);
    now.pressure.limited += 5;
    assert_int_equal(second_step(now), gf_reclaim_free_lazily);
    now.headroom.bytes = 200 * MIB;
    assert_int_equal(second_step(now), gf_reclaim_purge);
}

static void purges_under_pressure(void **state)
{
    (void)state;
    struct gf_reclaim_reading now = calm(1100);
    now.pressure.stalled_us += 9000; /* of 100000 */
    assert_int_equal(second_step(now), gf_reclaim_nothing);
    now.pressure.stalled_us += 2000;
    assert_int_equal(second_step(now), gf_reclaim_free_lazily);
    now.headroom.bytes = 299 * MIB;
    assert_int_equal(second_step(now), gf_reclaim_purge);

    now = calm(1100);
    now.pressure.killed = 1;
    assert_int_equal(second_step(now), gf_reclaim_purge);

    now = calm(1100);
    now.headroom.bytes = 37 * MIB; /* less than an eighth of the retained memory */
    assert_int_equal(second_step(now), gf_reclaim_purge);
    now.retained = now.dirty = 31 * MIB; /* too little to purge */
    assert_int_equal(second_step(now), gf_reclaim_free_lazily);
}

static void purges_once_a_second_at_most(void **state)
{
    (void)state;
    struct gf_reclaim squeeze = {0};
    unsigned given = 0;
    for (uint64_t ms = 1000; ms < 5000; ms += 100) {
        struct gf_reclaim_reading now = calm(ms);
        now.headroom.bytes = 0;
        given += gf_reclaim_feed(&squeeze, &now) == gf_reclaim_purge;
    }
    assert_int_equal(given, 4);
}

static void decides_without_unknown_counters(void **state)
{
    (void)state;
    struct gf_reclaim squeeze = {0};
    for (uint64_t ms = 1000; ms < 2000; ms += 100) {
        struct gf_reclaim_reading now = calm(ms);
        now.headroom.bytes = GF_HEADROOM_UNKNOWN;
        now.pressure = (struct gf_pressure){GF_PRESSURE_UNKNOWN, GF_PRESSURE_UNKNOWN,
                                            GF_PRESSURE_UNKNOWN, NULL, NULL};
        if (ms == 1500) /* a statistics file that appears later must not count as pressure */
            now.pressure = (struct gf_pressure){UINT64_MAX / 2, 99, 99, "", ""};
        assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_nothing);
    }
}

/*
 * While the program retained little memory, readings did not count. They still do not count when it
 * retains memory again.
 */
static void rests_while_little_is_retained(void **state)
{
    (void)state;
    struct gf_reclaim squeeze = {0};
    struct gf_reclaim_reading now = calm(1000);
    gf_reclaim_feed(&squeeze, &now);
    assert_int_equal(gf_reclaim_wait(&squeeze), 100 * MS);
    gf_reclaim_rest(&squeeze);
    assert_true(gf_reclaim_wait(&squeeze) == UINT64_MAX);
    now = calm(9000);
    now.idle = true;
    now.pressure.stalled_us += 8000000;
    now.pressure.limited += 5;
    assert_int_equal(gf_reclaim_feed(&squeeze, &now), gf_reclaim_nothing);
    assert_int_equal(gf_reclaim_wait(&squeeze), 100 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_a_busy_program_alone),
        cmocka_unit_test(frees_idle_pages_lazily),
        cmocka_unit_test(frees_lazily_when_headroom_shrinks),
        cmocka_unit_test(frees_lazily_at_the_limit_with_headroom),
        cmocka_unit_test(purges_under_pressure),
        cmocka_unit_test(purges_once_a_second_at_most),
        cmocka_unit_test(decides_without_unknown_counters),
        cmocka_unit_test(rests_while_little_is_retained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
