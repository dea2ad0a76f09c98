/* SPDX-License-Identifier: Apache-2.0 */
/* How a copy is written into the ring, and by how many, on a processor that can demote and on one that cannot. */
#include "unit.h"

#define gf_demote_is_possible is_possible

#include "../../src/transfer/flow.c"

static bool possible;

bool is_possible(void)
{
    return possible;
}

/* A pool of so many threads, none of which is started. */
static struct gf_flow prepared(unsigned threads, size_t bytes, bool to_host, bool at_once)
{
    static const struct gf_options automatic, eleven = {.stage_threads = 11};
    static const struct gf_cpus cpus;
    struct gf_context context = {.pool = gf_pool_get(100 + (int)threads, &cpus, threads, 0)};
    const struct gf_copy_call call = {.bytes = bytes};
    const struct gf_staging stage = {.call = &call, .context = &context};
    struct gf_flow flow;

    gf_setup.options = threads == 11 ? &eleven : &automatic;
    prepare(&flow, &stage, to_host, at_once);
    flow.chunk = GF_MIB(2);
    return flow;
}

static void large_ones_by_many_are_demoted(void **state)
{
    (void)state;
    possible = true;
    struct gf_flow flow = prepared(12, GF_MIB(16), false, true);
    assert_true(flow.demoted);
    assert_int_equal(flow.job.most, 0);
    assert_int_equal(piece_for(&flow), GF_KIB(64));
}

static void others_are_streamed(void **state)
{
    (void)state;
    possible = true;
    struct gf_flow flow = prepared(12, GF_MIB(16) - 1, false, true);
    assert_false(flow.demoted);
    assert_int_equal(flow.job.most, GF_TUNE_HELPERS_SMALL);
    assert_int_equal(piece_for(&flow), GF_KIB(256));
    assert_false(prepared(12, GF_MIB(16), true, true).demoted);
    assert_false(prepared(12, GF_MIB(16), false, false).demoted); /* the device reads it later */
    flow = prepared(11, GF_MIB(256), false, true);
    assert_false(flow.demoted);
    assert_int_equal(flow.job.most, 0); /* as many as were asked for */
    possible = false;
    flow = prepared(12, GF_MIB(256), false, true);
    assert_false(flow.demoted);
    assert_int_equal(flow.job.most, GF_TUNE_HELPERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_ones_by_many_are_demoted),
        cmocka_unit_test(others_are_streamed),
    };
    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
