/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How copies share a ring: how far the ring grows, where their slots are, and when memory becomes
 * free.
 */
#include "rings.h"

#include "engine/transfer/copy/staged_copy.h"

#include <signal.h>

/* Growth beyond the limit is not requested, and does not prevent growth within it. */
static void requests_keep_to_the_limit(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_MIB(14));
    struct gf_pipeline flow;
    const struct gf_copy_call call = {.dst = (uintptr_t)&flow, .bytes = GF_MIB(1)};
    const struct gf_stage_request request = {.call = &call, .context = &context, .ring = ring};
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want_contiguous(ring, GF_MIB(8));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(gf_pipeline_open_chunks(&flow, &request, true));
        gf_pipeline_release(&flow, true);
        gf_ring_ready(ring, GF_MIB(64));
    }
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(14));
    gf_setup.request_prepare = count_asking;
    askings = 0;
    assert_true(gf_pipeline_open_chunks(&flow, &request, true));
    gf_pipeline_release(&flow, true);
    gf_ring_want_contiguous(ring, GF_MIB(1));
    assert_int_equal(askings, 0);
    gf_setup.request_prepare = NULL;
    gf_ring_end(&context);
}

/* Growth for a busy stream is bounded: beyond it, the caller waits, as it would without the library. */
static void growth_for_busy_streams_is_bounded(void **state)
{
    (void)state;
    for (size_t bytes = GF_MIB(3); bytes < GF_MIB(200); bytes *= 4) {
        struct gf_ring *ring = ready(GF_SIZE_AUTO);
        for (unsigned i = 0; i < 20; i++) {
            gf_ring_want_contiguous(ring, bytes);
            gf_ring_ready(ring, GF_MIB(1024));
        }
        const uint64_t wished = gf_max(GF_TUNE_RING_WINDOW, GF_TUNE_RING_AHEAD * bytes);
        assert_true(gf_ring_bytes(ring) >= gf_min(wished, (uint64_t)GF_TUNE_RING_LIMIT * 3 / 4));
        assert_true(gf_ring_bytes(ring) <= 2 * wished + 2 * bytes);
        gf_ring_end(&context);
    }
}

static void least_ring_serves_large_copies(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(gf_option_by_name("GPUFEED_STAGE_RING")->low);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(2));
    struct gf_pipeline flow;
    const struct gf_copy_call call = {.src = (uintptr_t)&flow, .bytes = GF_MIB(64)};
    const struct gf_stage_request request = {.call = &call, .context = &context, .ring = ring};
    /* Even a large copy gets a slot. */
    assert_true(gf_pipeline_open_chunks(&flow, &request, false));
    gf_pipeline_release(&flow, true);
    gf_ring_end(&context);
}

/* Copies from the device request the window at most, whatever the first segment was. */
static void grows_to_the_window(void **state)
{
    (void)state;
    for (size_t first = GF_TUNE_RING_FIRST_LEAST; first <= GF_TUNE_RING_FIRST_MOST; first *= 2) {
        struct gf_ring *ring = fresh(GF_SIZE_AUTO);
        const struct gf_copy_call call = {.dst = (uintptr_t)&call, .bytes = GF_MIB(1)};
        const struct gf_stage_request request = {.call = &call, .context = &context, .ring = ring};
        gf_ring_ready(ring, 2 * first);
        assert_true(gf_ring_ready(ring, 2 * first));
        assert_int_equal(gf_ring_bytes(ring), first);
        for (unsigned i = 0; i < 8; i++) {
            struct gf_pipeline flow;
            assert_true(gf_pipeline_open_chunks(&flow, &request, true));
            gf_pipeline_release(&flow, true);
            gf_ring_ready(ring, GF_MIB(64));
        }
        assert_int_equal(gf_ring_bytes(ring), GF_TUNE_RING_WINDOW);
        assert_false(gf_ring_growth_is_on(ring));
        context.calls = 16; /* each of the 16 calls gets its share */
        for (unsigned i = 0; i < 8; i++) {
            struct gf_pipeline flow;
            assert_true(gf_pipeline_open_chunks(&flow, &request, true));
            gf_pipeline_release(&flow, true);
            gf_ring_ready(ring, GF_MIB(64));
        }
        assert_int_equal(gf_ring_bytes(ring), 16 * GF_TUNE_SHARE_LEAST);
        gf_ring_end(&context);
    }
}

/*
 * Each slot begins where the previous one ended, through all segments in the rotation. Slots never
 * use other segments.
 */
static void slots_rotate(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_ring_want_contiguous(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    gf_ring_want_contiguous(ring, GF_MIB(32)); /* this segment is outside the rotation */
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8 + 16 + 64));
    char *met[48], *before = NULL;
    for (unsigned i = 0; i < 48; i++) {
        struct gf_slot *slot = gf_slot_acquire(ring, GF_MIB(1));
        assert_non_null(slot);
        met[i] = slot->at;
        if (i % 24 != 0 && i % 24 != 8)
            assert_ptr_equal(slot->at, before + GF_MIB(1));
        before = slot->at;
        gf_slot_release(ring, slot);
    }
    for (unsigned i = 0; i < 24; i++) {
        assert_ptr_equal(met[i], met[i + 24]);
        for (unsigned k = 0; k < i; k++)
            assert_ptr_not_equal(met[i], met[k]);
    }
    struct gf_slot *large = gf_slot_acquire(ring, GF_MIB(64));
    assert_non_null(large); /* none of the slots above is in that segment */
    gf_slot_release(ring, large);
    /* Slots rotate in the same way after the first segment has been removed. */
    struct gf_slot *first = gf_slot_acquire(ring, GF_MIB(8)),
                   *held = gf_slot_acquire(ring, GF_MIB(16));
    assert_true(first && held);
    gf_slot_release(ring, first);
    pass(GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(16));
    before = held->at;
    gf_slot_release(ring, held);
    for (unsigned i = 0; i < 32; i++) {
        struct gf_slot *slot = gf_slot_acquire(ring, GF_MIB(1));
        assert_ptr_equal(slot->at, before + i % 16 * GF_MIB(1));
        gf_slot_release(ring, slot);
    }
    pass(-computer.ahead);
    gf_ring_end(&context);
}

/* Several calls share the memory that one call would use, and each gets at least the least share. */
static void calls_share_the_window(void **state)
{
    static char memory[GF_TUNE_SLOTS * GF_TUNE_CHUNK_MOST];
    const struct gf_copy_call call = {.src = (uintptr_t)memory, .bytes = sizeof(memory)};
    struct gf_stage_request request = {.call = &call, .context = &context};
    struct gf_pipeline flows[9];
    (void)state;
    for (unsigned calls = 1; calls < GF_ARRAY_LEN(flows); calls++) {
        request.ring = ready(GF_SIZE_AUTO);
        gf_ring_want_contiguous(request.ring, GF_TUNE_RING_WINDOW);
        gf_ring_ready(request.ring, GF_MIB(64));
        gf_ring_want_contiguous(request.ring, GF_MIB(4)); /* a request beyond the window */
        context.calls = calls;
        for (unsigned i = 0; i < calls; i++) {
            assert_true(gf_pipeline_open_chunks(&flows[i], &request, false));
            const size_t share = flows[i].slots * flows[i].plan.chunk;
            assert_true(share >= GF_TUNE_SHARE_LEAST);
            assert_true(share * calls <= GF_TUNE_RING_WINDOW);
            assert_true(calls > 1 || share == GF_TUNE_RING_WINDOW);
        }
        for (unsigned i = 0; i < calls; i++)
            gf_pipeline_release(&flows[i], true);
        gf_ring_end(&context);
    }
}

/*
 * The driver's asynchronous copy of up to 2 MiB never waits, even if other threads queue work on
 * its stream. So such a copy is left to the driver unless the ring has memory for all of it. A
 * larger copy waits as it would without the library.
 */
static void small_copies_never_wait(void **state)
{
    static char memory[GF_MIB(4)];
    static const struct {
        size_t bytes, room;
        bool staged;
        unsigned waited;
    } kinds[] = {{GF_MIB(2), GF_MIB(1), false, 0},
                 {GF_MIB(2), GF_MIB(2), true, 0},
                 {GF_MIB(4), GF_MIB(1), true, 1}};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        struct gf_ring *ring = ready(GF_SIZE_AUTO);
        struct gf_stage_result result = {0};
        const struct gf_copy_call call = {
            .src = (uintptr_t)memory, .bytes = kinds[i].bytes, .async = true};
        struct gf_hold hold = {0};
        const struct gf_stage_request request = {
            .call = &call, .context = &context, .ring = ring, .hold = &hold};
        struct gf_slot *others = gf_slot_acquire(ring, GF_MIB(8) - kinds[i].room);
        driver.come = 0; /* events complete only when waited for */
        const enum gf_bypass reason = gf_h2d_stage(&request, &result);
        assert_int_equal(reason, kinds[i].staged ? gf_bypass_none : gf_bypass_full);
        assert_int_equal(driver.waited, kinds[i].waited);
        assert_int_equal(driver.sent, kinds[i].staged ? kinds[i].bytes / GF_TUNE_CHUNK_LEAST : 0);
        driver.come = UINTPTR_MAX;
        gf_slot_release(ring, others);
        others = gf_slot_acquire(ring, GF_MIB(8)); /* all memory is free again */
        assert_non_null(others);
        gf_slot_release(ring, others);
        gf_ring_end(&context);
    }
}

static char *guarded;

static void permit(int signal)
{
    (void)signal;
    mprotect(guarded, GF_MIB(4), PROT_READ | PROT_WRITE);
}

/* The driver copies the end, because events fail. */
static void only_bytes_that_the_caller_copied_count_as_its_own(void **state)
{
    const struct sigaction action = {.sa_handler = permit};
    struct sigaction before;
    struct gf_stage_result result = {0};
    struct gf_hold hold = {0};

    (void)state;
    if (getenv("GF_UNDER_QEMU"))
        skip_because("qemu-user refuses process_vm_readv, by which helpers copy beside a handler");
    guarded = mmap(NULL, GF_MIB(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(guarded, MAP_FAILED);
    assert_int_equal(mprotect(guarded + GF_TUNE_CHUNK_LEAST, 4096, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    const struct gf_copy_call call = {.src = (uintptr_t)guarded, .bytes = GF_MIB(4), .async = true};
    const struct gf_stage_request request = {
        .call = &call, .context = &context, .ring = ring, .hold = &hold};
    assert_non_null(gf_slot_acquire(ring, GF_MIB(7)));
    driver.come = 0;
    driver.fails = true;
    assert_int_equal(gf_h2d_stage(&request, &result), gf_bypass_none);
    driver.fails = false;
    assert_in_range(result.done, GF_TUNE_CHUNK_LEAST, GF_MIB(1));
    assert_int_equal(result.alone, result.done - GF_TUNE_CHUNK_LEAST);
    sigaction(SIGSEGV, &before, NULL);
    gf_ring_end(&context);
    munmap(guarded, GF_MIB(4));
}

static void complete_all(void)
{
    driver.come = UINTPTR_MAX;
}

static void let_time_pass(void)
{
    pass(1000);
}

/* Fills the ring with DMAs under way. */
static struct gf_ring *full_ring(void)
{
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_slot_release_on_event(gf_slot_acquire(ring, GF_MIB(8)));
    naps.count = 0;
    return ring;
}

/*
 * A copy waits for a short time for memory that other copies hold. It is left to the driver at once
 * if the driver would copy without a wait.
 */
static void copies_wait_for_others(void **state)
{
    (void)state;
    struct gf_pipeline flow;
    struct gf_copy_call call = {.src = (uintptr_t)&flow, .bytes = GF_MIB(65536)};
    struct gf_stage_request request = {.call = &call, .context = &context, .ring = full_ring()};
    naps.then = complete_all;
    assert_true(gf_pipeline_open_chunks(&flow, &request, false));
    assert_int_equal(naps.count, 1);
    gf_pipeline_release(&flow, true);
    gf_ring_end(&context);

    request.ring = full_ring();
    call.bytes = GF_TUNE_ASYNC_NOWAIT;
    assert_false(gf_pipeline_open_chunks(&flow, &request, false));
    assert_int_equal(naps.count, 0);
    gf_ring_end(&context);
}

/* The wait is bounded. After a wait without success, the next copies do not wait. */
static void patience_ends(void **state)
{
    (void)state;
    struct gf_pipeline flow;
    const struct gf_copy_call call = {.src = (uintptr_t)&flow, .bytes = GF_MIB(65536)};
    const struct gf_stage_request request = {
        .call = &call, .context = &context, .ring = full_ring()};
    naps.then = let_time_pass;
    for (unsigned i = 0; i <= GF_TUNE_RING_IMPATIENT; i++) {
        assert_false(gf_pipeline_open_chunks(&flow, &request, false));
        assert_int_equal(naps.count, 1);
    }
    assert_false(gf_pipeline_open_chunks(&flow, &request, false));
    assert_int_equal(naps.count, 2);
    pass(-computer.ahead);
    driver.come = UINTPTR_MAX;
    gf_ring_end(&context);
}

/*
 * If reserved huge pages cannot be populated, the ring does not stay at its size: the next request
 * gets ordinary pages.
 */
static void reserved_pages_serve_the_ring(void **state)
{
    (void)state;
    options.pin_pages = gf_pin_pages_huge;
    huge_pool.has_pages = true;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    const unsigned notified = told.rings;
    assert_int_equal(huge_pool.asked, 1);
    computer.advice = MADV_POPULATE_WRITE;
    gf_ring_want_contiguous(ring, GF_MIB(20));
    assert_int_equal(huge_pool.asked, 2);
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    assert_int_equal(told.rings, notified);
    computer.advice = 0;
    gf_ring_want_contiguous(ring, GF_MIB(20));
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(48));
    assert_int_equal(huge_pool.asked, 2);
    options.pin_pages = gf_pin_pages_ordinary;
    gf_ring_end(&context);
}

/*
 * No event shows when the DMA of an abandoned slot has ended. The driver waits for it when the
 * segment is unregistered.
 */
static void abandoned_memory_goes_with_its_segment(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    driver.come = UINTPTR_MAX;
    struct gf_slot *held = gf_slot_acquire(ring, GF_MIB(4));
    for (unsigned i = 0; i < 2; i++)
        gf_slot_abandon(ring, gf_slot_acquire(ring, GF_MIB(2)));
    assert_null(gf_slot_acquire(ring, 1)); /* the slots are free, their memory is not */
    assert_non_null(gf_slot_acquire(ring, 0));
    pass(idle + 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0);
    gf_slot_release(ring, held);
    pass(idle + 1);
    driver.remove = CUDA_ERROR_UNKNOWN;
    gf_ring_trim(&context);
    assert_null(gf_slot_acquire(ring, GF_MIB(5))); /* abandoned units stay out of use */
    driver.remove = CUDA_SUCCESS;
    pass(idle + 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 2);
    assert_int_equal(gf_ring_bytes(ring), 0);
    gf_ring_end(&context);
    pass(-computer.ahead);
}

static void a_ring_that_is_off_is_removed(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_slot_release_on_event(gf_slot_acquire(ring, GF_MIB(8)));
    gf_ring_turn_off(ring, "cuEventRecord", CUDA_ERROR_UNKNOWN);
    driver.come = UINTPTR_MAX;
    for (unsigned i = 0; i < 2; i++) { /* the first one finds that the event has completed */
        pass(idle + 1);
        gf_ring_trim(&context);
    }
    assert_int_equal(gf_ring_bytes(ring), 0);
    gf_ring_end(&context);
    pass(-computer.ahead);
}

/* A copy that finds the ring full queries only some of the events. Later copies query the others. */
static void few_events_are_queried(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_slot *all = gf_slot_acquire(ring, GF_MIB(8));
    const unsigned count = gf_load_relaxed(&ring->slot_count);
    assert_in_range(count, 64, GF_RING_SLOTS);
    for (unsigned i = 0; i < count - 1; i++)
        gf_slot_release_on_event(gf_slot_acquire(ring, 0));
    gf_slot_release_on_event(all);
    assert_null(gf_slot_acquire(ring, 1));
    assert_in_range(gf_load_relaxed(&driver.queries), 1, 60);
    driver.come = (uintptr_t)all->event;
    struct gf_slot *found = NULL;
    for (unsigned i = 0; i < count && !found; i++)
        found = gf_slot_acquire(ring, 1);
    assert_non_null(found);
    gf_ring_end(&context);
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_keep_to_the_limit),
        cmocka_unit_test(growth_for_busy_streams_is_bounded),
        cmocka_unit_test(least_ring_serves_large_copies),
        cmocka_unit_test(grows_to_the_window),
        cmocka_unit_test(slots_rotate),
        cmocka_unit_test(calls_share_the_window),
        cmocka_unit_test(small_copies_never_wait),
        cmocka_unit_test(copies_wait_for_others),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(reserved_pages_serve_the_ring),
        cmocka_unit_test(abandoned_memory_goes_with_its_segment),
        cmocka_unit_test(a_ring_that_is_off_is_removed),
        cmocka_unit_test(few_events_are_queried),
        cmocka_unit_test(only_bytes_that_the_caller_copied_count_as_its_own),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
