/* SPDX-License-Identifier: Apache-2.0 */
#include "rings.h"

#include "transfer/prepare.h"

static uint64_t held_by_all(struct gf_ring *ring)
{
    uint64_t held[GF_LARGE_NODES + 1] = {0}, sum = 0;
    gf_ring_held(ring, held);
    for (unsigned i = 0; i <= GF_LARGE_NODES; i++)
        sum += held[i];
    return sum;
}

/* Exit in a signal's handler reports too, and may have come in the midst of a call of this thread's. */
static void reports_do_not_wait(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    alarm(20);
    pthread_mutex_lock(&ring->lock);
    assert_int_equal(held_by_all(ring), 0);
    pthread_mutex_unlock(&ring->lock);
    alarm(0);
    assert_int_equal(held_by_all(ring), GF_MIB(8));
    gf_ring_drop(&context);
}

static void grows_in_calls_only(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    assert_null(gf_block_take(ring, 1));
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
    assert_int_equal(held_by_all(ring), GF_MIB(48));
    assert_int_equal(driver.largest, GF_MIB(40));
    gf_ring_drop(&context);
}

/*
 * Looking for room and mapping is for another thread, where there is one; asked for it once. The first segment is
 * for the copies behind one that is the driver's, which it shall not disturb; who waits for more of it waits now.
 */
static void copies_only_ask(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    gf_setup.ask = count_asking;
    askings = 0;
    for (unsigned i = 0; i < 3; i++)
        assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(askings, 0);
    for (unsigned i = 0; i < 3; i++)
        gf_prepare_behind();
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

/* A ring is no reason for a program to be killed for the memory it takes. */
static void keeps_to_what_is_left(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    computer.left = GF_TUNE_RING_SHARE * GF_MIB(2) - 1;
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    pass(GF_TUNE_RING_RETRY_NS / 1000000000 + 1);
    computer.left = GF_TUNE_RING_SHARE * GF_MIB(6);
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(6));
    gf_ring_want(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(6));
    assert_int_equal(driver.largest, GF_MIB(6));
    computer.left = 0;
    pass(-computer.ahead);
    gf_ring_drop(&context);
}

static void blocks_do_not_overlap(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *taken[64];
    unsigned count = 0;
    while ((taken[count] = gf_block_take(ring, GF_KIB(300))))
        count++;
    assert_int_equal(count, 16); /* of two units each, out of 32 */
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < i; k++)
            assert_true(taken[i]->at + GF_KIB(300) <= taken[k]->at ||
                        taken[k]->at + GF_KIB(300) <= taken[i]->at);
    gf_block_give(ring, taken[3]);
    gf_block_give(ring, taken[9]);
    assert_null(gf_block_take(ring, GF_MIB(1))); /* enough, but not in one piece */
    gf_block_give(ring, taken[4]);
    assert_non_null(gf_block_take(ring, GF_MIB(1)));
    gf_ring_drop(&context);
}

static void freed_by_events_only(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *all = gf_block_take(ring, GF_MIB(8));
    assert_non_null(all);
    assert_int_equal(gf_block_mark(all, NULL), 0);
    gf_block_let_go(all);
    assert_null(gf_block_take(ring, 1));
    assert_null(gf_block_take(ring, 1));
    driver.come = (uintptr_t)all->event;
    struct gf_block *again = gf_block_take(ring, GF_MIB(8));
    assert_non_null(again);
    gf_block_lose(again); /* nobody can tell any more */
    driver.come = UINTPTR_MAX;
    assert_null(gf_block_take(ring, 1));
    gf_ring_drop(&context);
}

static void out_of_order(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_block *blocked = gf_block_take(ring, GF_MIB(4));
    struct gf_block *other = gf_block_take(ring, GF_MIB(4));
    CUevent late = blocked->event;
    blocked->event = other->event; /* the later one comes first */
    other->event = late;
    gf_block_let_go(blocked);
    gf_block_let_go(other);
    driver.come = 1;
    assert_non_null(gf_block_take(ring, GF_MIB(4)));
    assert_null(gf_block_take(ring, GF_MIB(4)));
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
    gf_block_let_go(gf_block_take(ring, GF_MIB(8)));
    driver.query = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_null(gf_block_take(ring, 1));
    assert_false(gf_ring_is_on(ring));
    gf_ring_drop(&context);
    ring = ready(GF_SIZE_AUTO);
    driver.create = CUDA_ERROR_OUT_OF_MEMORY;
    assert_null(gf_block_take(ring, 1));
    assert_false(gf_ring_is_on(ring));
    gf_ring_drop(&context);
}

/* What the system refuses is said once, in its own words. */
static void refusals_are_said(void **state)
{
    static const struct {
        bool maps;
        int advice;
        const char *words;
    } kinds[] = {
        {true, 0, "mmap failed: Operation not permitted"},
        {false, MADV_DONTFORK, "madvise(MADV_DONTFORK) failed: Function not implemented"},
        {false, MADV_POPULATE_WRITE, "madvise(MADV_POPULATE_WRITE) failed: Function not implemented"},
    };
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        struct gf_ring *ring = fresh(GF_SIZE_AUTO);
        computer.maps = kinds[i].maps;
        computer.advice = kinds[i].advice;
        assert_false(gf_ring_ready(ring, GF_MIB(16)));
        assert_false(gf_ring_ready(ring, GF_MIB(16)));
        assert_false(gf_ring_is_on(ring));
        assert_int_equal(told.offs, 1);
        assert_non_null(strstr(told.text, kinds[i].words));
        gf_ring_drop(&context);
        /* a later part: what is there goes on */
        ring = ready(GF_SIZE_AUTO);
        computer.maps = kinds[i].maps;
        computer.advice = kinds[i].advice;
        for (unsigned again = 0; again < 3; again++) {
            gf_ring_want(ring, GF_MIB(8));
            assert_true(gf_ring_ready(ring, GF_MIB(64)));
        }
        assert_true(gf_ring_is_on(ring));
        assert_int_equal(gf_ring_limit(ring), GF_MIB(8));
        assert_int_equal(told.offs, 0);
        assert_int_equal(told.rings, 2); /* has grown; stays */
        assert_non_null(strstr(told.text, "stays at 8 MiB"));
        assert_non_null(strstr(told.text, kinds[i].words));
        gf_ring_drop(&context);
    }
    computer.maps = false;
    computer.advice = 0;
}

static void gives_up_what_is_long_unused(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_ring_want(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(24));
    struct gf_block *held = gf_block_take(ring, GF_MIB(8)), *other = gf_block_take(ring, GF_MIB(8));
    gf_block_let_go(other);
    assert_false(gf_ring_is_due());
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0);
    driver.come = (uintptr_t)other->event;
    pass(idle + 1);
    assert_true(gf_ring_is_due());
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0); /* one is held, one was in use until this moment */
    assert_false(gf_ring_is_due());
    pass(idle + 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 1);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    assert_non_null(strstr(told.text, "has shrunk to 8 MiB"));
    gf_block_give(ring, held);
    pass(idle + 1);
    driver.remove = CUDA_ERROR_UNKNOWN; /* it stays registered, and in use */
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 2);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    held = gf_block_take(ring, GF_MIB(8));
    assert_non_null(held);
    gf_block_give(ring, held);
    pass(idle + 1);
    driver.remove = CUDA_SUCCESS;
    gf_ring_want(ring, GF_MIB(8)); /* on its way, and nobody copies any more: it goes, too */
    assert_true(gf_growth_is_on(&ring->growth));
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), 0);
    assert_null(gf_block_take(ring, 1));
    assert_false(gf_growth_is_on(&ring->growth));
    gf_ring_ready(ring, GF_MIB(16)); /* and comes again when it is wanted */
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    gf_ring_drop(&context);
    pass(-computer.ahead);
}

/* Many callers at once, for ThreadSanitizer as much as for what is asserted. */
static struct gf_ring *shared;

static void *use(void *unused)
{
    for (unsigned i = 0; i < 300; i++) {
        gf_ring_ready(shared, GF_MIB(16));
        struct gf_block *block = gf_block_take(shared, GF_KIB(256) * (1 + i % 7));
        if (!block) {
            gf_ring_want(shared, GF_MIB(4));
            continue;
        }
        char *const at = block->at;
        memset(at, (int)i, GF_KIB(256));
        assert_int_equal((unsigned char)at[GF_KIB(256) - 1], (unsigned char)i);
        gf_block_mark(block, NULL);
        if (i % 3)
            gf_block_let_go(block);
        else
            gf_block_give(shared, block);
        if (i % 50 == 0) {
            pass(GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
            gf_ring_trim(&context);
        }
    }
    return unused;
}

static void many_threads(void **state)
{
    static const struct gf_cpus any;
    pthread_t thread[4];
    (void)state;
    shared = fresh(GF_MIB(32));
    driver.come = UINTPTR_MAX;
    context.pool = gf_pool_get(1999, &any, 3, 0);
    assert_int_equal(gf_pool_start(context.pool), 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use, NULL), 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        pthread_join(thread[i], NULL);
    assert_true(gf_ring_is_on(shared));
    assert_true(gf_ring_bytes(shared) <= GF_MIB(32));
    gf_ring_drop(&context);
    pass(-computer.ahead);
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_do_not_wait),
        cmocka_unit_test(grows_in_calls_only),    cmocka_unit_test(small_copies_get_it_in_the_end),
        cmocka_unit_test(keeps_to_its_limit),     cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(keeps_to_what_is_left),
        cmocka_unit_test(freed_by_events_only),   cmocka_unit_test(out_of_order),
        cmocka_unit_test(failures_turn_it_off),   cmocka_unit_test(refusals_are_said),
        cmocka_unit_test(gives_up_what_is_long_unused), cmocka_unit_test(many_threads),
        cmocka_unit_test(failures_turn_it_off),   cmocka_unit_test(copies_only_ask),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
