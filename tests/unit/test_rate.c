/* SPDX-License-Identifier: Apache-2.0 */
/* Copies are left to the driver while it is faster, and staging is tried again later. */
#include "unit.h"

#include "engine/transfer/copy/rate.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* Each test uses a different kind of copy, because rates are kept. */
static const struct gf_copy_kind fast = {gf_direction_h2d, false}, slow = {gf_direction_h2d, true},
                                 changing = {gf_direction_d2h, false},
                                 unseen = {gf_direction_d2h, true};

static void stage(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        gf_rate_staged(kind, false, bytes, ns, bytes);
}

static void drive(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        gf_rate_driver(kind, false, bytes, ns, bytes);
}

/* Returns how many copies in a row are left to the driver. */
static unsigned backoff(struct gf_copy_kind kind, uint64_t bytes)
{
    unsigned ret = 0;
    while (ret < 100000 && gf_rate_advise(kind, false, bytes) != gf_rate_stage)
        ret++;
    return ret;
}

static void staging_goes_on_while_it_pays(void **state)
{
    (void)state;
    drive(fast, GF_MIB(4), 4 * MS, 8);
    stage(fast, GF_MIB(4), 1 * MS, 1000);
    assert_int_equal(backoff(fast, GF_MIB(4)), 0);
    stage(fast, GF_MIB(4), 4 * MS, 1000); /* equal speed is enough */
    assert_int_equal(backoff(fast, GF_MIB(4)), 0);
    stage(fast, GF_MIB(4), 4 * MS, 100);
    stage(fast, GF_MIB(4), 1000 * MS, 1); /* one slow copy has no effect */
    assert_int_equal(backoff(fast, GF_MIB(4)), 0);
}

static void backoffs_double(void **state)
{
    unsigned expected = GF_TUNE_RATE_BACKOFF;
    (void)state;
    drive(slow, GF_MIB(1), MS, 8);
    for (unsigned i = 0; i < 12; i++) {
        stage(slow, GF_MIB(1), 2 * MS, GF_TUNE_RATE_TRIALS - 1);
        assert_int_equal(backoff(slow, GF_MIB(1)), 0);
        stage(slow, GF_MIB(1), 2 * MS, 1);
        assert_int_equal(backoff(slow, GF_MIB(1)), expected);
        expected = gf_min(2 * expected, GF_TUNE_RATE_BACKOFF_MOST);
    }
    stage(slow, GF_MIB(1), MS / 2,
          GF_TUNE_RATE_SETTLED); /* it pays again: the next back-off is short */
    stage(slow, GF_MIB(1), 9 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(slow, GF_MIB(1)), GF_TUNE_RATE_BACKOFF);
}

/* Copies that end after a back-off, but began before it, do not count as trials. */
static void concurrent_copies_begin_one_backoff(void **state)
{
    (void)state;
    drive(slow, GF_MIB(8), 8 * MS, 8);
    stage(slow, GF_MIB(8), 80 * MS, 3 * GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(slow, GF_MIB(8)), GF_TUNE_RATE_BACKOFF);
    stage(slow, GF_MIB(8), 80 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(slow, GF_MIB(8)), 2 * GF_TUNE_RATE_BACKOFF);
}

/*
 * The first copy after a back-off is slow, because helpers sleep and caches are cold. It does not
 * decide.
 */
static void a_late_first_copy_decides_nothing(void **state)
{
    (void)state;
    drive(fast, GF_MIB(16), 160 * MS, 1);
    drive(fast, GF_MIB(16), 16 * MS, 1);
    for (unsigned i = 0; i < 4; i++) {
        stage(fast, GF_MIB(16), 500 * MS, 1);
        stage(fast, GF_MIB(16), 8 * MS, 2 * GF_TUNE_RATE_TRIALS);
        assert_int_equal(backoff(fast, GF_MIB(16)), 0);
        stage(fast, GF_MIB(16), 64 * MS, 1000); /* four times the driver's duration */
        assert_in_range(backoff(fast, GF_MIB(16)), 1, GF_TUNE_RATE_BACKOFF_MOST);
    }
}

/*
 * If staging is slow for a size that the driver never copied, a few copies measure the driver's
 * duration.
 */
static void unknown_durations_are_measured(void **state)
{
    const uint64_t certain = 2 * GF_TUNE_RATE_CERTAIN_NS - 1000;
    (void)state;
    stage(unseen, GF_MIB(2), certain, 1000); /* faster than any driver */
    assert_int_equal(backoff(unseen, GF_MIB(2)), 0);
    stage(unseen, GF_MIB(2), 10 * certain, 1000);
    for (unsigned i = 0; i < GF_TUNE_RATE_FIRST; i++)
        assert_int_equal(gf_rate_advise(unseen, false, GF_MIB(2)), gf_rate_measure);
    assert_int_equal(gf_rate_advise(unseen, false, GF_MIB(2)), gf_rate_stage);
    drive(unseen, GF_MIB(2), 19 * certain / 2, GF_TUNE_RATE_FIRST); /* about as slow as staging */
    stage(unseen, GF_MIB(2), 10 * certain, 1000);
    assert_int_equal(backoff(unseen, GF_MIB(2)), 0);
}

/*
 * On a stream that is never idle, the driver's duration cannot be measured, so attempts become
 * rarer.
 */
static void attempts_to_measure_become_rare(void **state)
{
    unsigned expected = GF_TUNE_RATE_TRIALS;
    (void)state;
    for (unsigned i = 0; i < 4; i++, expected *= 2) {
        stage(unseen, GF_MIB(1), MS, expected - 1);
        assert_int_equal(backoff(unseen, GF_MIB(1)), 0);
        stage(unseen, GF_MIB(1), MS, 1);
        assert_int_equal(backoff(unseen, GF_MIB(1)), GF_TUNE_RATE_FIRST);
    }
}

/* The last copies of a back-off measure the driver's present duration. */
static void the_end_of_a_backoff_is_measured(void **state)
{
    (void)state;
    drive(changing, GF_MIB(64), 10 * MS, 8);
    stage(changing, GF_MIB(64), 30 * MS, GF_TUNE_RATE_TRIALS);
    for (unsigned i = 0; i < GF_TUNE_RATE_BACKOFF - GF_TUNE_RATE_MEASURED; i++)
        assert_int_equal(gf_rate_advise(changing, false, GF_MIB(64)), gf_rate_leave);
    for (unsigned i = 0; i < GF_TUNE_RATE_MEASURED; i++)
        assert_int_equal(gf_rate_advise(changing, false, GF_MIB(64)), gf_rate_measure);
    assert_int_equal(gf_rate_advise(changing, false, GF_MIB(64)), gf_rate_stage);
}

/* When CPUs become busy, the driver becomes slower, too. */
static void the_drivers_recent_copies_count(void **state)
{
    (void)state;
    drive(changing, GF_MIB(2), MS, 8);
    stage(changing, GF_MIB(2), 3 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(changing, GF_MIB(2)), GF_TUNE_RATE_BACKOFF);
    drive(changing, GF_MIB(2), 5 * MS, GF_TUNE_RATE_BACKOFF);
    stage(changing, GF_MIB(2), 3 * MS, 1000);
    assert_int_equal(backoff(changing, GF_MIB(2)), 0);
}

static void all_sizes_are_judged_apart(void **state)
{
    (void)state;
    for (size_t mib = 4; mib <= 512; mib *= 2)
        drive(unseen, GF_MIB(mib), mib * MS / 10, 8);
    for (unsigned i = 0; i < 1000; i++) {
        gf_rate_staged(unseen, false, GF_TUNE_MIN_SHARED - 1, 1000 * MS, GF_MIB(1));
        gf_rate_staged(unseen, false, GF_MIB(4), MS / 10, GF_MIB(4));
    }
    stage(unseen, GF_MIB(32), 1000 * MS, GF_TUNE_RATE_TRIALS);
    stage(unseen, GF_MIB(4096), 10000 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(unseen, GF_MIB(64) - 1), GF_TUNE_RATE_BACKOFF);
    assert_int_equal(backoff(unseen, GF_MIB(512)), GF_TUNE_RATE_BACKOFF);
    stage(unseen, GF_KIB(512), 10 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(unseen, GF_KIB(512)), GF_TUNE_RATE_FIRST);
    assert_int_equal(backoff(unseen, GF_KIB(256)), 0);
    assert_int_equal(backoff(unseen, GF_MIB(64)), 0);
    assert_int_equal(backoff(unseen, GF_TUNE_MIN_SHARED - 1), 0);
    assert_int_equal(backoff(unseen, GF_MIB(7)), 0);
}

/*
 * Eight copies are too few to show a difference of a tenth; 64 copies show it. Back-offs then
 * double, as for a quarter.
 */
static void a_small_difference_counts_after_many_copies(void **state)
{
    (void)state;
    drive(fast, GF_MIB(64), 64 * MS, 8);
    for (unsigned expected = GF_TUNE_RATE_BACKOFF, i = 0; i < 4; i++, expected *= 2) {
        stage(fast, GF_MIB(64), 70 * MS, GF_TUNE_RATE_SETTLED - 1);
        assert_int_equal(backoff(fast, GF_MIB(64)), 0);
        stage(fast, GF_MIB(64), 70 * MS, 1);
        assert_int_equal(backoff(fast, GF_MIB(64)), expected);
    }
    stage(fast, GF_MIB(64), 67 * MS, 1000); /* less than a sixteenth */
    assert_int_equal(backoff(fast, GF_MIB(64)), 0);
    stage(fast, GF_MIB(64), 70 * MS, 1000);
    assert_int_equal(backoff(fast, GF_MIB(64)), GF_TUNE_RATE_BACKOFF);
}

/*
 * Eight callers share the link, so each copy takes eight times as long as with one caller. Compared
 * with the driver's durations for one caller, this must not count as slow.
 */
static void copies_that_share_are_judged_together(void **state)
{
    (void)state;
    drive(fast, GF_MIB(128), 128 * MS, 8);
    for (unsigned i = 0; i < 1000; i++)
        gf_rate_staged(fast, false, GF_MIB(128), 4 * 128 * MS, 8 * GF_MIB(128));
    assert_int_equal(backoff(fast, GF_MIB(128)), 0);
    for (unsigned i = 0; i < 8; i++)
        gf_rate_driver(fast, false, GF_MIB(256), 256 * MS, 8 * GF_MIB(256));
    stage(fast, GF_MIB(256), 256 * MS, GF_TUNE_RATE_TRIALS);
    assert_int_equal(backoff(fast, GF_MIB(256)), GF_TUNE_RATE_BACKOFF);
}

/*
 * One of eight callers repeatedly gets the driver's lock. Its copies are as fast as those of a
 * single caller.
 */
static void no_driver_is_faster_than_any(void **state)
{
    const uint64_t alone = GF_TUNE_RATE_CERTAIN_NS + 1000;
    (void)state;
    for (unsigned i = 0; i < 8; i++)
        gf_rate_driver(changing, false, GF_MIB(1), alone, 8 * GF_MIB(1));
    stage(changing, GF_MIB(1), GF_TUNE_RATE_CERTAIN_NS, 1000);
    assert_int_equal(backoff(changing, GF_MIB(1)), 0);
}

/* Others' bytes make a staged copy at most as fast as one that needs no comparison. */
static void large_neighbours_hide_no_slow_staging(void **state)
{
    const uint64_t bytes = GF_MIB(2);

    (void)state;
    drive(fast, bytes, GF_TUNE_RATE_CERTAIN_NS, 8);
    for (unsigned i = 0; i < GF_TUNE_RATE_TRIALS; i++)
        gf_rate_staged(fast, false, bytes, 10 * MS, 100000 * bytes);
    assert_int_equal(backoff(fast, bytes), GF_TUNE_RATE_BACKOFF);
}

/*
 * Bytes are counted by direction, and separately for the library and the driver. A copy that a
 * thread left by longjmp does not stay counted.
 */
static void bytes_under_way_are_counted(void **state)
{
    (void)state;
    assert_int_equal(gf_under_way_enter(gf_direction_h2d, gf_maker_library, 5), 5);
    assert_int_equal(gf_under_way_enter(gf_direction_h2d, gf_maker_driver, 7), 7);
    assert_int_equal(gf_under_way_enter(gf_direction_d2h, gf_maker_library, 9), 9);
    assert_int_equal(gf_under_way_enter(gf_direction_h2d, gf_maker_library, 3), 3);
    assert_int_equal(gf_under_way_leave(gf_direction_h2d, gf_maker_library), 3);
    assert_int_equal(gf_under_way_leave(gf_direction_h2d, gf_maker_library), 0);
    assert_true(gf_under_way_by_driver());
    assert_int_equal(gf_under_way_leave(gf_direction_h2d, gf_maker_driver), 7);
    assert_false(gf_under_way_by_driver());
    assert_int_equal(gf_under_way_leave(gf_direction_d2h, gf_maker_library), 9);
}

/* The program has created all thread-specific keys. The first copy of a process asks for one. */
static void bytes_are_counted_without_a_key(void **state)
{
    int status = 0;
    pthread_key_t key;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        while (pthread_key_create(&key, NULL) == 0)
            continue;
        _exit(gf_under_way_enter(gf_direction_h2d, gf_maker_library, 5) != 5 ||
              gf_under_way_leave(gf_direction_h2d, gf_maker_library) != 5);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static struct {
    pthread_barrier_t entered, looked;
} copying;

static void *add_copy(void *closure)
{
    (void)closure;
    gf_under_way_enter(gf_direction_h2d, gf_maker_driver, 100);
    pthread_barrier_wait(&copying.entered);
    pthread_barrier_wait(&copying.looked);
    return NULL; /* as a thread that is cancelled in the driver's call */
}

/* A copy of another thread counts until it ends, or its thread. */
static void the_copies_of_all_threads_count(void **state)
{
    pthread_t thread;

    (void)state;
    pthread_barrier_init(&copying.entered, NULL, 2);
    pthread_barrier_init(&copying.looked, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, add_copy, NULL), 0);
    pthread_barrier_wait(&copying.entered);
    assert_int_equal(gf_under_way_enter(gf_direction_h2d, gf_maker_driver, 5), 105);
    assert_int_equal(gf_under_way_leave(gf_direction_h2d, gf_maker_driver), 105);
    assert_true(gf_under_way_by_driver());
    pthread_barrier_wait(&copying.looked);
    pthread_join(thread, NULL);
    assert_false(gf_under_way_by_driver());
}

/* Copies behind unfinished work have separate means. */
static void queued_copies_are_judged_apart(void **state)
{
    static const struct gf_copy_kind async = {gf_direction_h2d, true};
    const uint64_t bytes = GF_MIB(64);
    unsigned left = 0;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        gf_rate_driver(async, false, bytes, 64 * MS, bytes);
        gf_rate_driver(async, true, bytes, MS, bytes);
    }
    for (unsigned i = 0; i < GF_TUNE_RATE_TRIALS; i++) {
        gf_rate_staged(async, false, bytes, 32 * MS, bytes);
        gf_rate_staged(async, true, bytes, 32 * MS, bytes);
    }
    assert_int_equal(backoff(async, bytes), 0);
    while (gf_rate_advise(async, true, bytes) != gf_rate_stage)
        left++;
    assert_int_equal(left, GF_TUNE_RATE_BACKOFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staging_goes_on_while_it_pays),
        cmocka_unit_test(backoffs_double),
        cmocka_unit_test(concurrent_copies_begin_one_backoff),
        cmocka_unit_test(a_late_first_copy_decides_nothing),
        cmocka_unit_test(the_drivers_recent_copies_count),
        cmocka_unit_test(unknown_durations_are_measured),
        cmocka_unit_test(attempts_to_measure_become_rare),
        cmocka_unit_test(the_end_of_a_backoff_is_measured),
        cmocka_unit_test(a_small_difference_counts_after_many_copies),
        cmocka_unit_test(all_sizes_are_judged_apart),
        cmocka_unit_test(copies_that_share_are_judged_together),
        cmocka_unit_test(no_driver_is_faster_than_any),
        cmocka_unit_test(large_neighbours_hide_no_slow_staging),
        cmocka_unit_test(bytes_are_counted_without_a_key), /* before the other two */
        cmocka_unit_test(bytes_under_way_are_counted),
        cmocka_unit_test(the_copies_of_all_threads_count),
        cmocka_unit_test(queued_copies_are_judged_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
