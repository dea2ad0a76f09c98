/* SPDX-License-Identifier: Apache-2.0 */
/* The causes that gf_cause derives from measurements. */
#include "unit.h"

#include "preload/trace/cause.h"

#define MS UINT64_C(1000000)

static struct gf_slowpath slow;
static struct gf_evidence evidence;

static int fresh(void **state)
{
    (void)state;
    slow = (struct gf_slowpath){.call = gf_slowpath_calloc, .end_ns = 10 * MS};
    evidence = (struct gf_evidence){.slow = &slow};
    return 0;
}

static void busy(uint64_t ms, uint64_t minor)
{
    evidence.used = (struct gf_slowpath_usage){.known = true, .cpu_us = ms * 1000, .minor = minor};
}

static void part(enum gf_slowpath_part which, uint64_t ms)
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
        enum gf_slowpath_part part;
        enum gf_cause cause;
    } rows[] = {{gf_slowpath_lock, gf_cause_lock},   {gf_slowpath_purge, gf_cause_purge},
                {gf_slowpath_map, gf_cause_map},     {gf_slowpath_unmap, gf_cause_map},
                {gf_slowpath_setup, gf_cause_setup}, {gf_slowpath_huge, gf_cause_faults}};
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        fresh(state);
        part(rows[i].part, 6);
        assert_int_equal(found(), rows[i].cause);
        part(rows[i].part, 4);
        assert_int_equal(found(), gf_cause_unknown);
    }
}

/* If several parts together take half of the call, the largest one is the cause. */
static void test_several_parts(void **state)
{
    struct gf_finding finding;
    (void)state;
    part(gf_slowpath_purge, 2);
    part(gf_slowpath_map, 2);
    part(gf_slowpath_unmap, 1);
    gf_cause_find(&evidence, &finding);
    assert_int_equal(finding.cause, gf_cause_map);
    assert_string_equal(finding.text,
                        "3000 us of 10000 us in mmap and munmap calls, the largest of "
                        "several parts");
    assert_false(finding.may_be_pause);
    part(gf_slowpath_lock, 4);
    gf_cause_find(&evidence, &finding);
    assert_int_equal(finding.cause, gf_cause_lock);
    assert_true(finding.may_be_pause);
    /* A page fault takes about a microsecond. */
    fresh(NULL);
    part(gf_slowpath_map, 2);
    busy(9, 4000);
    assert_int_equal(found(), gf_cause_unknown);
    busy(9, 6000);
    assert_int_equal(found(), gf_cause_faults);
}

/* The text uses singular and plural correctly. */
static void test_words(void **state)
{
    static const struct {
        unsigned calls;
        const char *text;
    } rows[] = {{1, "6000 us in 1 madvise call, which purged 64 KiB"},
                {2, "6000 us in 2 madvise calls, which purged 64 KiB"}};
    struct gf_finding finding;

    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        fresh(state);
        part(gf_slowpath_purge, 6);
        slow.part_count[gf_slowpath_purge] = rows[i].calls;
        slow.part_bytes[gf_slowpath_purge] = 64 << 10;
        gf_cause_find(&evidence, &finding);
        assert_string_equal(finding.text, rows[i].text);
    }
}

static void test_huge_page(void **state)
{
    (void)state;
    part(gf_slowpath_huge, 6);
    part(gf_slowpath_map, 3);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .compactions = 1};
    assert_int_equal(found(), gf_cause_compaction);
    evidence.pressure =
        (struct gf_pressure_counters){.known = true, .waits_known = true, .waited_us = 6000};
    assert_int_equal(found(), gf_cause_reclaim);
    /* The kernel compacted for another process. */
    part(gf_slowpath_huge, 1);
    part(gf_slowpath_map, 8);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .compactions = 1};
    assert_int_equal(found(), gf_cause_map);
}

static void test_fork(void **state)
{
    (void)state;
    part(gf_slowpath_lock, 9);
    slow.forked = true;
    assert_int_equal(found(), gf_cause_fork);
    /* Blocked on the address space, which a fork copies. */
    slow.part_ns[gf_slowpath_lock] = 0;
    busy(1, 3);
    evidence.used.voluntary = 2;
    assert_int_equal(found(), gf_cause_fork);
    /* The fork does not explain work of the thread itself. */
    fresh(NULL);
    slow.forked = true;
    part(gf_slowpath_purge, 9);
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
    /* With huge pages, there are few faults, each of 2 MiB. */
    busy(10, 32);
    assert_int_equal(found(), gf_cause_copy);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .huge = 32};
    assert_int_equal(found(), gf_cause_faults);
    evidence.pressure.compactions = 3;
    assert_int_equal(found(), gf_cause_compaction);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .max = 2};
    assert_int_equal(found(), gf_cause_reclaim);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .reclaims = 2};
    assert_int_equal(found(), gf_cause_reclaim);
    /* The cgroup's time in reclaim is better evidence than the machine's number of reclaims. */
    evidence.pressure = (struct gf_pressure_counters){
        .known = true, .max = 2, .reclaims = 2, .waits_known = true, .waited_us = 4000};
    assert_int_equal(found(), gf_cause_copy);
    evidence.pressure.waited_us = 6000;
    assert_int_equal(found(), gf_cause_reclaim);
    /* Faults from zram keep the thread's CPU busy. Here they are a large share of the pages. */
    evidence.used.major = 3000;
    assert_int_equal(found(), gf_cause_swap);
    evidence.used.major = 3;
    assert_int_equal(found(), gf_cause_reclaim);
    /* The thread's accounting is unknown. */
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
    /* The cgroup's quota is the cause only if it certainly throttled the thread. */
    evidence.pressure = (struct gf_pressure_counters){.known = true, .throttled_us = 6000};
    assert_int_equal(found(), gf_cause_throttled);
    evidence.pressure.throttled_us = 1000;
    assert_int_equal(found(), gf_cause_preempted);
    evidence.pressure = (struct gf_pressure_counters){0};
    evidence.throttled_before_us = 6000;
    assert_int_equal(found(), gf_cause_preempted);
    evidence.used.voluntary = 1;
    evidence.used.major = 7;
    assert_int_equal(found(), gf_cause_swap);
    /* One or two faults among many waits cannot be the cause. */
    evidence.used.voluntary = 40;
    assert_int_equal(found(), gf_cause_unknown);
    evidence.used.voluntary = 1;
    evidence.used.major = 0;
    /* Reclaim somewhere on the machine does not explain a blocked thread. */
    evidence.pressure = (struct gf_pressure_counters){.known = true, .reclaims = 1};
    assert_int_equal(found(), gf_cause_unknown);
    evidence.pressure = (struct gf_pressure_counters){.known = true, .high = 1};
    assert_int_equal(found(), gf_cause_reclaim);
    evidence.pressure.high = 0;
    assert_int_equal(found(), gf_cause_unknown);
    evidence.single_threaded = true;
    assert_int_equal(found(), gf_cause_paused);
    /* The thread may have waited inside the kernel. */
    part(gf_slowpath_purge, 9);
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
        /* The thread had no CPU: it probably waited for the GPU. */
        busy(1, 10);
        evidence.used.voluntary = 1;
        assert_int_equal(found(), copy ? gf_cause_unknown : gf_cause_gpu);
        evidence.pressure = (struct gf_pressure_counters){.known = true, .high = 3};
        assert_int_equal(found(), gf_cause_reclaim);
        evidence.pressure.high = 0;
        /* One or two page faults during a wait for the GPU are not the cause. */
        evidence.used.major = 2;
        assert_int_equal(found(), kinds[i] == gf_driver_call ? gf_cause_gpu : gf_cause_swap);
        evidence.used.voluntary = 9;
        assert_int_equal(found(), copy ? gf_cause_unknown : gf_cause_gpu);
        busy(1, 10);
        evidence.used.forced = 1;
        assert_int_equal(found(), gf_cause_preempted);
    }
}

/* Only the log's writer thread knows whether the process was paused. */
static void test_pause_is_settled_later(void **state)
{
    struct gf_finding finding;
    (void)state;
    part(gf_slowpath_purge, 9);
    busy(1, 0);
    evidence.used.voluntary = 1;
    gf_cause_find(&evidence, &finding);
    assert_int_equal(finding.cause, gf_cause_unknown);
    assert_true(finding.may_be_pause);
    assert_int_equal(finding.without_pause, gf_cause_purge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_parts, fresh),
        cmocka_unit_test_setup(test_several_parts, fresh),
        cmocka_unit_test_setup(test_words, fresh),
        cmocka_unit_test_setup(test_huge_page, fresh),
        cmocka_unit_test_setup(test_fork, fresh),
        cmocka_unit_test_setup(test_work, fresh),
        cmocka_unit_test_setup(test_off_the_cpu, fresh),
        cmocka_unit_test_setup(test_driver, fresh),
        cmocka_unit_test_setup(test_pause_is_settled_later, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
