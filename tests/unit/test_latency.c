/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/trace/latency.h"

#include <pthread.h>

static struct gf_latency all[128], own[1024];
static size_t alls, owns;

static void see(void *closure, const struct gf_latency *row)
{
    (void)closure;
    if (row->tid == -1)
        all[alls++] = *row;
    else
        own[owns++] = *row;
}

static const struct gf_latency *find(const struct gf_latency *rows, size_t count,
                                     enum gf_timed kind, uint64_t size_to)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind == kind && rows[i].size_to == size_to)
            return &rows[i];
    return NULL;
}

static void *add_some(void *unused)
{
    for (unsigned i = 0; i < 1000; i++)
        gf_latency_add(gf_timed_malloc, 100, i == 999 ? 5000000 : 100);
    return unused;
}

/* Each kind, size and thread has its own row. A quantile is the upper end of its bucket. */
static void test_quantiles(void **state)
{
    pthread_t thread;
    (void)state;
    add_some(NULL);
    assert_int_equal(pthread_create(&thread, NULL, add_some, NULL), 0);
    pthread_join(thread, NULL);
    gf_latency_add(gf_timed_free, 0, 1);
    gf_latency_add_max(gf_timed_malloc, (size_t)1 << 40, 77777);
    gf_latency_each(see, NULL);
    assert_int_equal(alls, 3);
    assert_int_equal(owns, 4);
    const struct gf_latency *row = find(all, alls, gf_timed_malloc, 512);
    assert_non_null(row);
    assert_int_equal(row->count, 2000);
    assert_int_equal(row->total_ns, 2 * (999 * 100 + 5000000));
    assert_int_equal(row->p50_ns, 128);
    assert_int_equal(row->p99_ns, 128);
    assert_int_equal(row->p999_ns, 128);
    assert_int_equal(row->max_ns, 5000000);
    row = find(all, alls, gf_timed_malloc, UINT64_MAX);
    assert_non_null(row);
    assert_int_equal(row->count, 0);
    assert_int_equal(row->max_ns, 77777);
    row = find(all, alls, gf_timed_free, 0);
    assert_non_null(row);
    assert_int_equal(row->max_ns, 1);
    assert_int_equal(row->p50_ns, 1);
}

/* Threads add at the same time to private rows and to shared rows. */
static void test_at_once(void **state)
{
    pthread_t thread[4];
    uint64_t before = 0, after = 0;
    (void)state;
    for (size_t i = 0; i < alls; i++)
        before += all[i].count;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, add_some, NULL), 0);
    alls = owns = 0;
    gf_latency_each(see, NULL); /* the threads still add */
    for (size_t i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    alls = owns = 0;
    gf_latency_each(see, NULL);
    for (size_t i = 0; i < alls; i++)
        after += all[i].count;
    assert_int_equal(after, before + 4 * 1000);
}

/* If the table is full, threads share rows, and no count is lost. */
static void test_full_table(void **state)
{
    uint64_t before = 0, after = 0;
    (void)state;
    for (size_t i = 0; i < alls; i++)
        before += all[i].count;
    for (int round = 0; round < 700; round++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, add_some, NULL), 0);
        pthread_join(thread, NULL);
    }
    for (unsigned kind = 0; kind < GF_TIMED_COUNT; kind++) /* includes kinds without a row so far */
        gf_latency_add((enum gf_timed)kind, (size_t)1 << 20, 100);
    alls = owns = 0;
    gf_latency_each(see, NULL);
    for (size_t i = 0; i < alls; i++)
        after += all[i].count;
    assert_int_equal(after, before + 700 * 1000 + GF_TIMED_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
