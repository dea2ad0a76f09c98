/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "place/squeeze.h"

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)

/* A machine with a lot of room, and a program that fills and frees 256 MiB. */
static struct gf_squeeze_reading calm(uint64_t ms)
{
    return (struct gf_squeeze_reading){
        .now_ns = ms * MS,
        .kept = 300 * MIB,
        .dirty = 256 * MIB,
        .room = {.bytes = 8192 * MIB},
        .pressure = {.stalled_us = 7, .limited = 3, .killed = 0},
    };
}

static enum gf_squeeze_step second_step(struct gf_squeeze_reading second)
{
    struct gf_squeeze squeeze = {0};
    const struct gf_squeeze_reading first = calm(1000);
    assert_int_equal(gf_squeeze_feed(&squeeze, &first), gf_squeeze_nothing);
    return gf_squeeze_feed(&squeeze, &second);
}

static void leaves_a_busy_program_alone(void **state)
{
    (void)state;
    struct gf_squeeze squeeze = {0};
    for (uint64_t ms = 1000; ms < 20000; ms += 100) {
        const struct gf_squeeze_reading now = calm(ms);
        assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_nothing);
    }
    assert_int_equal(gf_squeeze_wait(&squeeze), 100 * MS);
}

static void lends_what_lies_idle(void **state)
{
    (void)state;
    struct gf_squeeze squeeze = {0};
    struct gf_squeeze_reading now = calm(1000);
    gf_squeeze_feed(&squeeze, &now);
    for (uint64_t ms = 1100; ms < 2000; ms += 100) {
        now = calm(ms);
        now.idle = true;
        assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_nothing);
    }
    now.now_ns = 2000 * MS;
    assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_lend);
    assert_int_equal(gf_squeeze_wait(&squeeze), 500 * MS);
    now.dirty = 0;
    now.now_ns = 2500 * MS;
    assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_nothing);
    now.kept = 0;
    gf_squeeze_feed(&squeeze, &now);
    assert_true(gf_squeeze_wait(&squeeze) == UINT64_MAX);
}

static void lends_when_room_gets_tight(void **state)
{
    (void)state;
    struct gf_squeeze_reading now = calm(1100);
    now.room.bytes = 513 * MIB;
    assert_int_equal(second_step(now), gf_squeeze_nothing);
    now.room.bytes = 511 * MIB;
    assert_int_equal(second_step(now), gf_squeeze_lend);
}

/* The page cache of a group that reads files runs into its limit all day long. */
static void lends_at_the_limit_while_there_is_room(void **state)
{
    (void)state;
    struct gf_squeeze_reading now = calm(1100);
    now.pressure.limited += 5;
    assert_int_equal(second_step(now), gf_squeeze_lend);
    now.room.bytes = 200 * MIB;
    assert_int_equal(second_step(now), gf_squeeze_give_back);
}

static void gives_back_where_it_hurts(void **state)
{
    (void)state;
    struct gf_squeeze_reading now = calm(1100);
    now.pressure.stalled_us += 9000; /* of 100000 */
    assert_int_equal(second_step(now), gf_squeeze_nothing);
    now.pressure.stalled_us += 2000;
    assert_int_equal(second_step(now), gf_squeeze_lend);
    now.room.bytes = 299 * MIB;
    assert_int_equal(second_step(now), gf_squeeze_give_back);

    now = calm(1100);
    now.pressure.killed = 1;
    assert_int_equal(second_step(now), gf_squeeze_give_back);

    now = calm(1100);
    now.room.bytes = 37 * MIB; /* less than an eighth of what is kept */
    assert_int_equal(second_step(now), gf_squeeze_give_back);
    now.kept = now.dirty = 31 * MIB; /* not worth it */
    assert_int_equal(second_step(now), gf_squeeze_lend);
}

static void gives_back_once_a_second_at_most(void **state)
{
    (void)state;
    struct gf_squeeze squeeze = {0};
    unsigned given = 0;
    for (uint64_t ms = 1000; ms < 5000; ms += 100) {
        struct gf_squeeze_reading now = calm(ms);
        now.room.bytes = 0;
        given += gf_squeeze_feed(&squeeze, &now) == gf_squeeze_give_back;
    }
    assert_int_equal(given, 4);
}

static void does_without_what_is_unknown(void **state)
{
    (void)state;
    struct gf_squeeze squeeze = {0};
    for (uint64_t ms = 1000; ms < 2000; ms += 100) {
        struct gf_squeeze_reading now = calm(ms);
        now.room.bytes = GF_HEADROOM_UNKNOWN;
        now.pressure = (struct gf_pressure){GF_PRESSURE_UNKNOWN, GF_PRESSURE_UNKNOWN,
                                            GF_PRESSURE_UNKNOWN, NULL, NULL};
        if (ms == 1500) /* a file that comes late is no pressure */
            now.pressure = (struct gf_pressure){UINT64_MAX / 2, 99, 99, "", ""};
        assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_nothing);
    }
}

/* What was seen before says nothing about a program that keeps something again. */
static void rests_while_little_is_kept(void **state)
{
    (void)state;
    struct gf_squeeze squeeze = {0};
    struct gf_squeeze_reading now = calm(1000);
    gf_squeeze_feed(&squeeze, &now);
    assert_int_equal(gf_squeeze_wait(&squeeze), 100 * MS);
    gf_squeeze_rest(&squeeze);
    assert_true(gf_squeeze_wait(&squeeze) == UINT64_MAX);
    now = calm(9000);
    now.idle = true;
    now.pressure.stalled_us += 8000000;
    now.pressure.limited += 5;
    assert_int_equal(gf_squeeze_feed(&squeeze, &now), gf_squeeze_nothing);
    assert_int_equal(gf_squeeze_wait(&squeeze), 100 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_a_busy_program_alone),
        cmocka_unit_test(lends_what_lies_idle),
        cmocka_unit_test(lends_when_room_gets_tight),
        cmocka_unit_test(lends_at_the_limit_while_there_is_room),
        cmocka_unit_test(gives_back_where_it_hurts),
        cmocka_unit_test(gives_back_once_a_second_at_most),
        cmocka_unit_test(does_without_what_is_unknown),
        cmocka_unit_test(rests_while_little_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
