/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of steps, from marks or from events that repeat. */
#include "unit.h"

#include "preload/trace/step_times.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define MIB ((size_t)1 << 20)
#define ABOUT(ns, ms) assert_in_range(ns, (ms)*MS * 95 / 100, (ms)*MS * 105 / 100)

/* Each test continues at a later time. The tests of events come before the one of marks. */
static uint64_t now = MS;

static struct gf_step_times read_steps(void)
{
    struct gf_step_times ret;
    gf_step_times_read(&ret);
    return ret;
}

static void test_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_steps().source, gf_step_none);
    /* A model's parameters are copied once each. */
    for (size_t i = 0; i < 200; i++)
        gf_step_times_copy(now += MS, i * MIB);
    assert_int_equal(read_steps().source, gf_step_none);
    now += 3000 * MS;
}

/* docs/report.md: at least 10 steps are needed. */
static void test_least_steps(void **state)
{
    struct gf_step_series series = {.source = gf_step_copies, .key = MIB};
    const struct gf_step_facts sums = {{0}};
    struct gf_step_times found;
    (void)state;
    for (unsigned i = 0; i <= 9; i++)
        gf_step_series_add(&series, (i + 1) * 100 * MS, true, &sums);
    assert_false(gf_step_series_read(&series, &sums, &found)); /* nine intervals */
    gf_step_series_add(&series, 1100 * MS, true, &sums);
    assert_true(gf_step_series_read(&series, &sums, &found));
    assert_int_equal(found.steps, 10);
}

/* A wait is a worse sign than a copy, but it finds steps where no copy does. */
static void test_waits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 400; i++)
        gf_step_times_wait(now += 50 * MS, "cuStreamSynchronize");
    const struct gf_step_times found = read_steps();
    assert_int_equal(found.source, gf_step_waits);
    assert_int_equal(found.steps, 399);
    ABOUT(found.p50_ns, 50);
    assert_int_equal(found.max_ns, 50 * MS);
    assert_int_equal(found.slow[0].ns, 0);
}

/* Two copies of one size in each step, a label of another size, and one slow step in fifty. */
static void test_copies(void **state)
{
    uint64_t slowest = 0;
    (void)state;

    for (unsigned i = 0; i < 400; i++) {
        if (i == 200)
            slowest = now;
        now += i == 200 ? 900 * MS : i % 50 ? 100 * MS : 300 * MS;
        gf_step_times_wait(now - 20 * MS, "cuStreamSynchronize");
        gf_step_times_copy(now, 64 * MIB);
        gf_step_times_copy(now + MS, 64 * MIB);
        gf_step_times_copy(now + MS, MIB);
    }
    const struct gf_step_times found = read_steps();
    assert_int_equal(found.source, gf_step_copies);
    assert_int_equal(found.bytes, 64 * MIB);
    assert_int_equal(found.steps, 399);
    ABOUT(found.p50_ns, 100);
    ABOUT(found.p99_ns, 300);
    assert_in_range(found.max_ns, 898 * MS, 900 * MS);
    assert_int_equal(found.slow[0].ns, found.max_ns);
    assert_int_equal(found.slow[0].start_ns, slowest + MS);
    for (unsigned i = 1; i < 7; i++)
        ABOUT(found.slow[i].ns, 300);
    assert_int_equal(found.slow[7].ns, 0);
}

/* The time between two steps belongs to none. */
static void test_marks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        gf_step_times_mark(now, false, true);
        gf_step_times_mark(now + 10 * MS, true, true);
        gf_step_times_mark(now + 30 * MS, true, false);
        now += 500 * MS;
    }
    const struct gf_step_times found = read_steps();
    assert_int_equal(found.source, gf_step_marks);
    assert_int_equal(found.steps, 40);
    ABOUT(found.p50_ns, 10);
    assert_int_equal(found.max_ns, 20 * MS);
    assert_int_equal(found.slow[0].ns, 20 * MS);
}

/*
 * The start of a program copies each of sixteen sizes often, and an evaluation does so, too. Neither
 * hides the batch's copy.
 */
static void test_many_sizes(void **state)
{
    (void)state;
    now += 600000 * MS; /* the series of the tests before have ended */
    for (size_t i = 0; i < (size_t)16 * 20; i++)
        gf_step_times_copy(now += MS, (200 + i % 16) * MIB);
    now += 3000 * MS;
    for (unsigned i = 0; i < 200; i++)
        gf_step_times_copy(now += 100 * MS, 300 * MIB);
    for (size_t i = 0; i < (size_t)16 * 20; i++)
        gf_step_times_copy(now += 10 * MS, (400 + i) * MIB);
    for (unsigned i = 0; i < 200; i++)
        gf_step_times_copy(now += 100 * MS, 300 * MIB);
    const struct gf_step_times found = read_steps();
    assert_int_equal(found.source, gf_step_copies);
    assert_int_equal(found.bytes, 300 * MIB);
    assert_int_equal(found.steps, 399);
    ABOUT(found.p50_ns, 100);
}

/*
 * Each step has 10 faults. The engine publishes those of the slow step only after its end, and they
 * are still the slow step's.
 */
static void test_facts(void **state)
{
    uint64_t facts[GF_STEP_ENGINE_FACTS] = {0};
    struct gf_step_times found;
    (void)state;

    now += 60000 * MS;
    for (unsigned i = 0; i < 40; i++) {
        if (i == 30) {
            now += 30000 * MS;
            facts[0] += 1000;
            gf_step_times_stall(gf_cause_map, 200 * MS);
        }
        gf_step_times_copy(now, 500 * MIB);
        if (i == 30) {
            found = read_steps();
            assert_int_equal(found.slow[0].ns, 40000 * MS);
            assert_int_equal(found.slow[0].facts.value[GF_CAUSE_COUNT], 10);
        }
        gf_step_times_publish(now + 5 * MS, facts);
        facts[0] += 10;
        gf_step_times_publish(now + 5000 * MS, facts);
        now += 10000 * MS;
    }
    found = read_steps();
    assert_true(found.has_facts);
    assert_int_equal(found.bytes, 500 * MIB);
    assert_int_equal(found.slow_steps, 1);
    assert_int_equal(found.slow[0].facts.value[GF_CAUSE_COUNT], 1010);
    assert_int_equal(found.slow[0].facts.value[gf_cause_map], 200 * MS);
    assert_int_equal(found.typical.value[GF_CAUSE_COUNT], 10);
    assert_int_equal(found.typical.value[gf_cause_map], 0);
}

static _Atomic bool is_over;

static void *read_forever(void *unused)
{
    while (!is_over)
        read_steps();
    return unused;
}

/* The parent's other thread nearly always holds the lock, so a child inherits it. */
static void test_fork(void **state)
{
    pthread_t thread;
    (void)state;

    assert_int_equal(pthread_create(&thread, NULL, read_forever, NULL), 0);
    for (unsigned i = 0; i < 50; i++) {
        const pid_t child = fork();
        int status;
        if (!child) {
            for (unsigned k = 0; k < 12; k++)
                gf_step_times_mark(now += 10 * MS, k > 0, true);
            _exit(read_steps().source == gf_step_marks ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    is_over = true;
    pthread_join(thread, NULL);
}

/* Uneven events are no steps. */
static void test_uneven(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        now += (20 + i * 37 % 100) * MS;
        gf_step_times_copy(now, 99 * MIB);
    }
    assert_int_equal(read_steps().source, gf_step_none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_least_steps),
        cmocka_unit_test(test_waits),   cmocka_unit_test(test_copies),
        cmocka_unit_test(test_uneven),  cmocka_unit_test(test_many_sizes),
        cmocka_unit_test(test_facts),   cmocka_unit_test(test_fork),
        cmocka_unit_test(test_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
