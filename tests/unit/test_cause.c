/* SPDX-License-Identifier: Apache-2.0 */
/* Causes from what was measured, a row each. */
#include "unit.h"

#include "observe/cause.h"

#define MS UINT64_C(1000000)

static struct gf_slow slow;
static struct gf_evidence evidence;

static int fresh(void **state)
{
    (void)state;
    slow = (struct gf_slow){.call = gf_slow_calloc, .end_ns = 10 * MS};
    evidence = (struct gf_evidence){.slow = &slow};
    return 0;
}

static void busy(uint64_t ms, uint64_t minor)
{
    evidence.used = (struct gf_slow_usage){.known = true, .cpu_us = ms * 1000, .minor = minor};
}

static void part(enum gf_slow_part which, uint64_t ms)
{
    slow.part_ns[which] = ms * MS;
    slow.part_count[which] = 1;
}

static enum gf_cause found(void)
{
    struct gf_finding finding;
    gf_cause_find(&evidence, &finding);
    assert_true(*finding.text);
    return finding.cause;
}

static void test_parts(void **state)
{
    static const struct {
        enum gf_slow_part part;
        enum gf_cause cause;
    } rows[] = {{gf_slow_lock, gf_cause_lock}, {gf_slow_purge, gf_cause_purge},
                {gf_slow_map, gf_cause_map}, {gf_slow_unmap, gf_cause_map},
                {gf_slow_setup, gf_cause_setup}, {gf_slow_huge, gf_cause_faults}};
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        fresh(state);
        part(rows[i].part, 6);
        assert_int_equal(found(), rows[i].cause);
        part(rows[i].part, 4);
        assert_int_equal(found(), gf_cause_unknown);
    }
}

static void test_huge_page(void **state)
{
    (void)state;
    part(gf_slow_huge, 6);
    part(gf_slow_map, 3);
    evidence.risen = (struct gf_strain){.known = true, .compactions = 1};
    assert_int_equal(found(), gf_cause_compaction);
    evidence.risen = (struct gf_strain){.known = true, .waits_known = true, .waited_us = 6000};
    assert_int_equal(found(), gf_cause_reclaim);
    /* The kernel compacted for somebody else. */
    part(gf_slow_huge, 1);
    part(gf_slow_map, 8);
    evidence.risen = (struct gf_strain){.known = true, .compactions = 1};
    assert_int_equal(found(), gf_cause_map);
}

static void test_fork(void **state)
{
    (void)state;
    part(gf_slow_lock, 9);
    slow.forked = true;
    assert_int_equal(found(), gf_cause_fork);
    /* Blocked on the address space, which a fork copies. */
    slow.part_ns[gf_slow_lock] = 0;
    busy(1, 3);
    evidence.used.voluntary = 2;
    assert_int_equal(found(), gf_cause_fork);
    /* Work of its own is no fault of the fork's. */
    fresh(NULL);
    slow.forked = true;
    part(gf_slow_purge, 9);
    busy(9, 0);
    assert_int_equal(found(), gf_cause_purge);
}

static void test_work(void **state)
{
    (void)state;
    slow.work = 64 << 20;
    busy(10, 16384);
    assert_int_equal(found(), gf_cause_faults);
    busy(10, 0);
    assert_int_equal(found(), gf_cause_copy);
    /* Huge pages: few faults, each of 2 MiB, if the kernel gave any. */
    busy(10, 32);
    assert_int_equal(found(), gf_cause_copy);
    evidence.risen = (struct gf_strain){.known = true, .huge = 32};
    assert_int_equal(found(), gf_cause_faults);
    evidence.risen.compactions = 3;
    assert_int_equal(found(), gf_cause_compaction);
    evidence.risen = (struct gf_strain){.known = true, .max = 2};
    assert_int_equal(found(), gf_cause_reclaim);
    evidence.risen = (struct gf_strain){.known = true, .reclaims = 2};
    assert_int_equal(found(), gf_cause_reclaim);
    /* How long the group waited says more than how often somebody did. */
    evidence.risen = (struct gf_strain){.known = true, .max = 2, .reclaims = 2, .waits_known = true,
                                        .waited_us = 4000};
    assert_int_equal(found(), gf_cause_copy);
    evidence.risen.waited_us = 6000;
    assert_int_equal(found(), gf_cause_reclaim);
    /* From zram: busy, and no small share of the pages. */
    evidence.used.major = 3000;
    assert_int_equal(found(), gf_cause_swap);
    evidence.used.major = 3;
    assert_int_equal(found(), gf_cause_reclaim);
    /* Nothing is known of the thread. */
    evidence.used.known = false;
    assert_int_equal(found(), gf_cause_unknown);
}

static void test_off_the_cpu(void **state)
{
    (void)state;
    slow.work = 64 << 20;
    busy(2, 100);
    evidence.used.forced = 2;
    assert_int_equal(found(), gf_cause_preempted);
    /* By its group's quota, if that is sure. */
    evidence.risen = (struct gf_strain){.known = true, .throttled_us = 6000};
    assert_int_equal(found(), gf_cause_throttled);
    evidence.risen.throttled_us = 1000;
    assert_int_equal(found(), gf_cause_preempted);
    evidence.risen = (struct gf_strain){0};
    evidence.throttled_before_us = 6000;
    assert_int_equal(found(), gf_cause_preempted);
    evidence.used.voluntary = 1;
    evidence.used.major = 7;
    assert_int_equal(found(), gf_cause_swap);
    /* A fault or two among many waits is not what it waited for. */
    evidence.used.voluntary = 40;
    assert_int_equal(found(), gf_cause_unknown);
    evidence.used.voluntary = 1;
    evidence.used.major = 0;
    /* Somebody on the machine reclaimed: not a reason to be blocked. */
    evidence.risen = (struct gf_strain){.known = true, .reclaims = 1};
    assert_int_equal(found(), gf_cause_unknown);
    evidence.risen = (struct gf_strain){.known = true, .high = 1};
    assert_int_equal(found(), gf_cause_reclaim);
    evidence.risen.high = 0;
    assert_int_equal(found(), gf_cause_unknown);
    evidence.alone = true;
    assert_int_equal(found(), gf_cause_paused);
    /* It may have waited inside the kernel. */
    part(gf_slow_purge, 9);
    assert_int_equal(found(), gf_cause_unknown);
}

static void test_driver(void **state)
{
    (void)state;
    static const enum gf_driver_call kinds[] = {gf_driver_call, gf_driver_wait, gf_driver_copy};
    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        fresh(NULL);
        evidence.driver = kinds[i];
        const bool copy = kinds[i] == gf_driver_copy;
        busy(9, 10);
        assert_int_equal(found(), copy ? gf_cause_unknown : gf_cause_gpu);
        busy(9, 6000);
        assert_int_equal(found(), gf_cause_faults);
        /* Off the CPU: for the GPU, as far as is known. */
        busy(1, 10);
        evidence.used.voluntary = 1;
        assert_int_equal(found(), copy ? gf_cause_unknown : gf_cause_gpu);
        evidence.risen = (struct gf_strain){.known = true, .high = 3};
        assert_int_equal(found(), gf_cause_reclaim);
        evidence.risen.high = 0;
        /* A page fault or two beside a wait for the GPU is no reason. */
        evidence.used.major = 2;
        assert_int_equal(found(), kinds[i] == gf_driver_call ? gf_cause_gpu : gf_cause_swap);
        evidence.used.voluntary = 9;
        assert_int_equal(found(), copy ? gf_cause_unknown : gf_cause_gpu);
        busy(1, 10);
        evidence.used.forced = 1;
        assert_int_equal(found(), gf_cause_preempted);
    }
}

/* What only a thread of ours can tell. */
static void test_stop_is_settled_later(void **state)
{
    struct gf_finding finding;
    (void)state;
    part(gf_slow_purge, 9);
    busy(1, 0);
    evidence.used.voluntary = 1;
    gf_cause_find(&evidence, &finding);
    assert_int_equal(finding.cause, gf_cause_unknown);
    assert_true(finding.stopped);
    assert_int_equal(finding.otherwise, gf_cause_purge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_parts, fresh),
        cmocka_unit_test_setup(test_huge_page, fresh),
        cmocka_unit_test_setup(test_fork, fresh),
        cmocka_unit_test_setup(test_work, fresh),
        cmocka_unit_test_setup(test_off_the_cpu, fresh),
        cmocka_unit_test_setup(test_driver, fresh),
        cmocka_unit_test_setup(test_stop_is_settled_later, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
