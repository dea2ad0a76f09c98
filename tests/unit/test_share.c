/* SPDX-License-Identifier: Apache-2.0 */
/* What copies have of a ring between them: how far it grows for them, and where their blocks lie. */
#include "rings.h"

/* What its limit does not allow nobody is asked for, and keeps nobody from what it does. */
static void asks_within_its_limit(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_MIB(14));
    struct gf_flow flow;
    const struct gf_copy_call call = {.dst = (uintptr_t)&flow, .bytes = GF_MIB(1)};
    const struct gf_staging stage = {.call = &call, .context = &context, .ring = ring};
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want(ring, GF_MIB(8));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(gf_flow_cut(&flow, &stage, true));
        gf_flow_release(&flow, true);
        gf_ring_ready(ring, GF_MIB(64));
    }
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(14));
    gf_setup.ask = count_asking;
    askings = 0;
    assert_true(gf_flow_cut(&flow, &stage, true));
    gf_flow_release(&flow, true);
    gf_ring_want(ring, GF_MIB(1));
    assert_int_equal(askings, 0);
    gf_setup.ask = NULL;
    gf_ring_drop(&context);
}

/* A stream that is ever busier is no reason to pin ever more: who waited for it natively waits again. */
static void some_copies_ahead_are_enough(void **state)
{
    (void)state;
    for (size_t bytes = GF_MIB(3); bytes < GF_MIB(200); bytes *= 2) {
        struct gf_ring *ring = ready(GF_SIZE_AUTO);
        for (unsigned i = 0; i < 20; i++) {
            gf_ring_want(ring, bytes);
            gf_ring_ready(ring, GF_MIB(1024));
        }
        const uint64_t wished = gf_max(GF_TUNE_RING_WINDOW, GF_TUNE_RING_AHEAD * bytes);
        assert_true(gf_ring_bytes(ring) >= gf_min(wished, (uint64_t)GF_TUNE_RING_LIMIT * 3 / 4));
        assert_true(gf_ring_bytes(ring) <= 2 * wished + 2 * bytes);
        gf_ring_drop(&context);
    }
}

static void the_least_that_may_be_asked_for_serves(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(gf_option_by_name("GPUFEED_STAGE_RING")->low);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(2));
    struct gf_flow flow;
    const struct gf_copy_call call = {.src = (uintptr_t)&flow, .bytes = GF_MIB(64)};
    const struct gf_staging stage = {.call = &call, .context = &context, .ring = ring};
    assert_true(gf_flow_cut(&flow, &stage, false)); /* large copies, too */
    gf_flow_release(&flow, true);
    gf_ring_drop(&context);
}

/* What serves idle streams is all that copies from the device ask for, wherever the ring began. */
static void grows_as_far_as_it_serves(void **state)
{
    (void)state;
    for (size_t first = GF_TUNE_RING_FIRST_LEAST; first <= GF_TUNE_RING_FIRST_MOST; first *= 2) {
        struct gf_ring *ring = fresh(GF_SIZE_AUTO);
        const struct gf_copy_call call = {.dst = (uintptr_t)&call, .bytes = GF_MIB(1)};
        const struct gf_staging stage = {.call = &call, .context = &context, .ring = ring};
        gf_ring_ready(ring, 2 * first);
        assert_true(gf_ring_ready(ring, 2 * first));
        assert_int_equal(gf_ring_bytes(ring), first);
        for (unsigned i = 0; i < 8; i++) {
            struct gf_flow flow;
            assert_true(gf_flow_cut(&flow, &stage, true));
            gf_flow_release(&flow, true);
            gf_ring_ready(ring, GF_MIB(64));
        }
        assert_int_equal(gf_ring_bytes(ring), GF_TUNE_RING_WINDOW);
        assert_false(gf_growth_is_on(&ring->growth));
        context.running = 16; /* of which each shall have its share */
        for (unsigned i = 0; i < 8; i++) {
            struct gf_flow flow;
            assert_true(gf_flow_cut(&flow, &stage, true));
            gf_flow_release(&flow, true);
            gf_ring_ready(ring, GF_MIB(64));
        }
        assert_int_equal(gf_ring_bytes(ring), 16 * GF_TUNE_SHARE_LEAST);
        gf_ring_drop(&context);
    }
}

/* One at a time: each lies behind the one before, through all that takes turns; the rest is left alone. */
static void blocks_take_turns(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_ring_want(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    gf_ring_want(ring, GF_MIB(32)); /* behind those that take turns */
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8 + 16 + 64));
    char *met[48], *before = NULL;
    for (unsigned i = 0; i < 48; i++) {
        struct gf_block *block = gf_block_take(ring, GF_MIB(1));
        assert_non_null(block);
        met[i] = block->at;
        if (i % 24 != 0 && i % 24 != 8)
            assert_ptr_equal(block->at, before + GF_MIB(1));
        before = block->at;
        gf_block_give(ring, block);
    }
    for (unsigned i = 0; i < 24; i++) {
        assert_ptr_equal(met[i], met[i + 24]);
        for (unsigned k = 0; k < i; k++)
            assert_ptr_not_equal(met[i], met[k]);
    }
    struct gf_block *large = gf_block_take(ring, GF_MIB(64));
    assert_non_null(large); /* nobody has touched it */
    gf_block_give(ring, large);
    /* And so they do when the first have been given up. */
    struct gf_block *first = gf_block_take(ring, GF_MIB(8)), *held = gf_block_take(ring, GF_MIB(16));
    assert_true(first && held);
    gf_block_give(ring, first);
    pass(GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(16));
    before = held->at;
    gf_block_give(ring, held);
    for (unsigned i = 0; i < 32; i++) {
        struct gf_block *block = gf_block_take(ring, GF_MIB(1));
        assert_ptr_equal(block->at, before + i % 16 * GF_MIB(1));
        gf_block_give(ring, block);
    }
    pass(-computer.ahead);
    gf_ring_drop(&context);
}

/* What one alone takes, several have between them: no less than the least share each. */
static void calls_share_it(void **state)
{
    static char memory[GF_TUNE_SLOTS * GF_TUNE_CHUNK_MOST];
    const struct gf_copy_call call = {.src = (uintptr_t)memory, .bytes = sizeof(memory)};
    struct gf_staging stage = {.call = &call, .context = &context};
    struct gf_flow flows[9];
    (void)state;
    for (unsigned calls = 1; calls < GF_ARRAY_LEN(flows); calls++) {
        stage.ring = ready(GF_SIZE_AUTO);
        gf_ring_want(stage.ring, GF_TUNE_RING_WINDOW);
        gf_ring_ready(stage.ring, GF_MIB(64));
        gf_ring_want(stage.ring, GF_MIB(4)); /* as nobody else has asked */
        context.running = calls;
        for (unsigned i = 0; i < calls; i++) {
            assert_true(gf_flow_cut(&flows[i], &stage, false));
            const size_t share = flows[i].slots * flows[i].chunk;
            assert_true(share >= GF_TUNE_SHARE_LEAST);
            assert_true(share * calls <= GF_TUNE_RING_WINDOW);
            assert_true(calls > 1 || share == GF_TUNE_RING_WINDOW);
        }
        for (unsigned i = 0; i < calls; i++)
            gf_flow_release(&flows[i], true);
        gf_ring_drop(&context);
    }
}

/*
 * The driver's asynchronous copy of up to 2 MiB never waits, whatever others put on its stream meanwhile: with less
 * room than it takes as a whole it is the driver's. A larger one waits as natively, and goes on.
 */
static void small_ones_never_wait(void **state)
{
    static char memory[GF_MIB(4)];
    static const struct {
        size_t bytes, room;
        bool staged;
        unsigned waited;
    } kinds[] = {{GF_MIB(2), GF_MIB(1), false, 0}, {GF_MIB(2), GF_MIB(2), true, 0}, {GF_MIB(4), GF_MIB(1), true, 1}};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        struct gf_ring *ring = ready(GF_SIZE_AUTO);
        uint64_t since;
        struct gf_staged done;
        const struct gf_copy_call call = {.src = (uintptr_t)memory, .bytes = kinds[i].bytes, .async = true};
        const struct gf_staging stage = {.call = &call, .context = &context, .ring = ring, .since_ns = &since};
        struct gf_block *others = gf_block_take(ring, GF_MIB(8) - kinds[i].room);
        driver.come = 2; /* the next one's, by which the stream is idle; those behind it do not come by themselves */
        gf_stage_h2d(&stage, &done);
        assert_true(done.forward == !kinds[i].staged);
        assert_int_equal(driver.waited, kinds[i].waited);
        if (done.forward)
            assert_int_equal(done.why, gf_forward_full);
        assert_int_equal(driver.sent, done.forward ? 0 : kinds[i].bytes / GF_TUNE_CHUNK_LEAST);
        driver.come = UINTPTR_MAX;
        gf_block_give(ring, others);
        others = gf_block_take(ring, GF_MIB(8)); /* all of it is free again */
        assert_non_null(others);
        gf_block_give(ring, others);
        gf_ring_drop(&context);
    }
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_within_its_limit),
        cmocka_unit_test(some_copies_ahead_are_enough),
        cmocka_unit_test(the_least_that_may_be_asked_for_serves),
        cmocka_unit_test(grows_as_far_as_it_serves),
        cmocka_unit_test(blocks_take_turns),
        cmocka_unit_test(calls_share_it),
        cmocka_unit_test(small_ones_never_wait),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
