/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the longest copies of an interval, from several threads. */
#include "unit.h"

#include "base/clock.h"
#include "engine/transfer/stats.h"

#include <pthread.h>
#include <unistd.h>

#define MOST 128

static struct gf_long_copy found[MOST];

static void add(uint64_t ns)
{
    gf_longest_copies_add(gf_direction_d2h, gf_bypass_pinned, ns * 2, ns);
}

static void test_nothing_is_recorded_without_a_log(void **state)
{
    (void)state;
    add(1000);
    assert_int_equal(gf_longest_copies_take(found, MOST), 0);
    gf_longest_copies_start();
}

static void test_the_longest_copies_of_a_thread_are_kept(void **state)
{
    (void)state;
    const uint64_t before = gf_now_ns();
    for (uint64_t i = 1; i <= 100; i++)
        add(i * 37 % 101); /* each number from 1 to 100 once */
    assert_int_equal(gf_longest_copies_take(found, MOST), 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(found[i].ns, 100 - i);
        assert_int_equal(found[i].bytes, 2 * found[i].ns);
        assert_int_equal(found[i].tid, gettid());
        assert_int_equal(found[i].direction, gf_direction_d2h);
        assert_int_equal(found[i].group, gf_copy_group_pinned);
        assert_in_range(found[i].end_ns, before, gf_now_ns());
    }
    assert_int_equal(gf_longest_copies_take(found, MOST), 0);
    add(5); /* a short copy is among the longest of the next interval */
    assert_int_equal(gf_longest_copies_take(found, MOST), 1);
}

static void test_a_short_list_has_the_longest(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 6; i++)
        add(i * 5 % 7); /* 5 3 1 6 4 2 */
    assert_int_equal(gf_longest_copies_take(found, 3), 3);
    assert_int_equal(found[0].ns, 6);
    assert_int_equal(found[1].ns, 5);
    assert_int_equal(found[2].ns, 4);
    assert_int_equal(gf_longest_copies_take(found, 3), 0);
}

static void *add_own(void *closure)
{
    for (unsigned i = 0; i < 1000; i++)
        add((uintptr_t)closure + i % 10);
    return NULL;
}

/* More threads than shards, beside a reader. */
static void test_threads_share_shards(void **state)
{
    pthread_t threads[24];
    uint64_t longest = 0;

    (void)state;
    for (uintptr_t i = 0; i < GF_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_own, (void *)(1000 + i * 100)), 0);
    for (unsigned i = 0; i < 100; i++)
        if (gf_longest_copies_take(found, 2))
            longest = gf_max(longest, found[0].ns);
    for (unsigned i = 0; i < GF_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    if (gf_longest_copies_take(found, 2))
        longest = gf_max(longest, found[0].ns);
    /*
     * If two threads add to a shard at the same time, one copy may be lost. So the test does not
     * require the longest one.
     */
    assert_in_range(longest, 1000 + 23 * 100, 1000 + 23 * 100 + 9);
}

static void test_groups(void **state)
{
    (void)state;
    assert_string_equal(gf_copy_group_name(gf_copy_group(gf_bypass_none)), "staged");
    assert_string_equal(gf_copy_group_name(gf_copy_group(gf_bypass_pinned)), "pinned");
    assert_string_equal(gf_copy_group_name(gf_copy_group(gf_bypass_ends)), "other");
    assert_string_equal(gf_copy_group_name(gf_copy_group(gf_bypass_slower)), "driver");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_recorded_without_a_log),
        cmocka_unit_test(test_the_longest_copies_of_a_thread_are_kept),
        cmocka_unit_test(test_a_short_list_has_the_longest),
        cmocka_unit_test(test_threads_share_shards),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
