/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "transfer/ring.h"
#include "transfer/setup.h"
#include "transfer/tuning.h"

#include <string.h>
#include <unistd.h>

/* A driver whose events are numbers: they have come when `come` has passed them. */
static struct {
    uintptr_t made, come;
    CUresult record, query, create, enlist;
    unsigned registered;
    size_t largest;
} driver;

static CUresult create_event(CUevent *ret, unsigned flags)
{
    assert_true(flags & CU_EVENT_DISABLE_TIMING);
    *ret = (CUevent)(++driver.made);
    return driver.create;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return driver.record;
}

static CUresult query_event(CUevent event)
{
    return driver.query ? driver.query
                        : (uintptr_t)event <= driver.come ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult enlist(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    assert_int_equal((uintptr_t)at % GF_MIB(2), 0);
    for (size_t i = 0; i < bytes; i += 4096) /* touched before, or this is what touches it */
        assert_int_equal(((char *)at)[i], 0);
    driver.registered++;
    driver.largest = gf_max(driver.largest, bytes);
    return driver.enlist;
}

static struct gf_options options = {.stage_ring = GF_SIZE_AUTO};
static struct gf_context context;

static struct gf_ring *fresh(uint64_t limit)
{
    static int node = 2000;
    static const struct gf_cpus any;
    memset(&driver, 0, sizeof(driver));
    memset(&context, 0, sizeof(context));
    context.node = -1;
    context.pool = gf_pool_get(node++, &any, 1, 0); /* the caller does all of it */
    options.stage_ring = limit;
    struct gf_ring *ring = gf_ring_of(&context);
    assert_non_null(ring);
    assert_ptr_equal(gf_ring_of(&context), ring);
    return ring;
}

static struct gf_ring *ready(uint64_t limit)
{
    struct gf_ring *ring = fresh(limit);
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    return ring;
}

static void grows_in_calls_only(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    assert_null(gf_ring_take(ring, 1));
    assert_false(gf_ring_ready(ring, GF_MIB(16))); /* asked for; this copy goes on without */
    assert_int_equal(driver.registered, 0);
    assert_false(gf_ring_ready(ring, GF_MIB(4))); /* too small to carry the cost */
    assert_int_equal(driver.registered, 0);
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(driver.registered, 1);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want(ring, GF_MIB(20));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_ready(ring, GF_MIB(20));
    assert_int_equal(driver.registered, 2);
    assert_int_equal(driver.largest, GF_MIB(40));
    gf_ring_drop(&context);
}

static unsigned askings;

static void count_asking(void)
{
    askings++;
}

/* Looking for room and mapping is for another thread, where there is one; asked for it once. */
static void copies_only_ask(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    gf_setup.ask = count_asking;
    askings = 0;
    for (unsigned i = 0; i < 3; i++)
        assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(askings, 1);
    assert_int_equal(driver.registered, 0);
    gf_ring_prepare(ring);
    gf_ring_prepare(ring); /* nothing was asked for any more */
    assert_int_equal(driver.registered, 0);
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want(ring, GF_MIB(20));
    assert_int_equal(askings, 2);
    gf_setup.ask = NULL;
    gf_ring_prepare(ring);
    gf_ring_ready(ring, GF_MIB(20));
    assert_int_equal(driver.largest, GF_MIB(40));
    gf_ring_drop(&context);
}

static void small_copies_get_it_in_the_end(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    unsigned asked = 0;
    gf_ring_ready(ring, GF_MIB(16));
    while (!gf_ring_ready(ring, GF_KIB(4)) && asked < 1000)
        asked++;
    assert_int_equal(asked, GF_TUNE_RING_PATIENCE);
    gf_ring_drop(&context);
}

static void keeps_to_its_limit(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_MIB(12));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want(ring, GF_MIB(6)); /* in one piece there is no room for it */
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_drop(&context);
    ring = ready(GF_MIB(12));
    gf_ring_want(ring, GF_MIB(4));
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(12));
    gf_ring_drop(&context);
}

static void blocks_do_not_overlap(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *taken[64];
    unsigned count = 0;
    while ((taken[count] = gf_ring_take(ring, GF_KIB(300))))
        count++;
    assert_int_equal(count, 16); /* of two units each, out of 32 */
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < i; k++)
            assert_true(taken[i]->at + GF_KIB(300) <= taken[k]->at ||
                        taken[k]->at + GF_KIB(300) <= taken[i]->at);
    gf_ring_give(ring, taken[3]);
    gf_ring_give(ring, taken[9]);
    assert_null(gf_ring_take(ring, GF_MIB(1))); /* enough, but not in one piece */
    gf_ring_give(ring, taken[4]);
    assert_non_null(gf_ring_take(ring, GF_MIB(1)));
    gf_ring_drop(&context);
}

static void freed_by_events_only(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *all = gf_ring_take(ring, GF_MIB(8));
    assert_non_null(all);
    assert_int_equal(gf_ring_mark(all, NULL), 0);
    gf_ring_let_go(all);
    assert_null(gf_ring_take(ring, 1));
    assert_null(gf_ring_take(ring, 1));
    driver.come = (uintptr_t)all->event;
    struct gf_block *again = gf_ring_take(ring, GF_MIB(8));
    assert_non_null(again);
    gf_ring_lose(again); /* nobody can tell any more */
    driver.come = UINTPTR_MAX;
    assert_null(gf_ring_take(ring, 1));
    gf_ring_drop(&context);
}

static void out_of_order(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *blocked = gf_ring_take(ring, GF_MIB(4));
    struct gf_block *other = gf_ring_take(ring, GF_MIB(4));
    CUevent late = blocked->event;
    blocked->event = other->event; /* the later one comes first */
    other->event = late;
    gf_ring_let_go(blocked);
    gf_ring_let_go(other);
    driver.come = 1;
    assert_non_null(gf_ring_take(ring, GF_MIB(4)));
    assert_null(gf_ring_take(ring, GF_MIB(4)));
    gf_ring_drop(&context);
}

static void failures_turn_it_off(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    driver.enlist = CUDA_ERROR_OUT_OF_MEMORY;
    gf_ring_ready(ring, GF_MIB(16));
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_false(gf_ring_is_on(ring));
    gf_ring_drop(&context);
    ring = ready(GF_SIZE_AUTO);
    gf_ring_let_go(gf_ring_take(ring, GF_MIB(8)));
    driver.query = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_null(gf_ring_take(ring, 1));
    assert_false(gf_ring_is_on(ring));
    gf_ring_drop(&context);
    ring = ready(GF_SIZE_AUTO);
    driver.create = CUDA_ERROR_OUT_OF_MEMORY;
    assert_null(gf_ring_take(ring, 1));
    assert_false(gf_ring_is_on(ring));
    gf_ring_drop(&context);
}

int main(void)
{
    static const struct gf_cuda cuda = {.cuEventCreate = create_event,
                                        .cuEventRecord = record_event,
                                        .cuEventQuery = query_event,
                                        .cuMemHostRegister_v2 = enlist};
    gf_setup = (struct gf_transfer_setup){.options = &options, .cuda = &cuda};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_in_calls_only),    cmocka_unit_test(small_copies_get_it_in_the_end),
        cmocka_unit_test(keeps_to_its_limit),     cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(freed_by_events_only),   cmocka_unit_test(out_of_order),
        cmocka_unit_test(failures_turn_it_off),   cmocka_unit_test(copies_only_ask),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
