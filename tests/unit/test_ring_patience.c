/* SPDX-License-Identifier: Apache-2.0 */
/* How long copies wait for a ring that another thread prepares, and how long it keeps memory. */
#include "rings.h"

#include "base/clock.h"

static struct gf_ring *late_ring;
static pthread_t late_thread;
static bool late_started;

static void *prepare_late(void *unused)
{
    usleep(2000);
    gf_ring_prepare(late_ring);
    return unused;
}

/* Another request may arrive while the first one is served. One thread serves both. */
static void request_late(void)
{
    if (late_started)
        return;
    late_started = true;
    assert_int_equal(pthread_create(&late_thread, NULL, prepare_late, NULL), 0);
}

/*
 * A large first copy waits until another thread has prepared the ring, and is then staged. On a
 * busy machine, the other thread may begin too late, so the test tries again.
 */
static void large_copies_wait_for_the_ring(void **state)
{
    const uint64_t begun = gf_now_ns();
    bool was_ready = false;
    (void)state;

    /* On a busy machine, the other thread may not run before the copy's patience ends. */
    while (!was_ready && gf_now_ns() - begun < 20000000000) {
        struct gf_ring *ring = late_ring = fresh(GF_SIZE_AUTO);
        late_started = false;
        gf_setup.request_prepare = request_late;
        was_ready = gf_ring_ready(ring, GF_MIB(65536));
        assert_int_equal(pthread_join(late_thread, NULL), 0);
        assert_int_equal(driver.registered, was_ready);
        gf_setup.request_prepare = NULL;
        gf_ring_end(&context);
    }
    assert_true(was_ready);
}

/*
 * If no thread prepares the ring, a copy waits for a quarter of its patience, and later copies do
 * not wait.
 */
static void waits_for_the_ring_are_limited(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    const size_t bytes = GF_MIB(512);
    const uint64_t begun = gf_now_ns();
    askings = 0;
    gf_setup.request_prepare = count_asking;
    assert_false(gf_ring_ready(ring, bytes));
    assert_true(gf_now_ns() - begun >= 512 * GF_TUNE_RING_FIRST_PATIENCE_NS / 4);
    assert_int_equal(askings, 1);
    assert_true(ring->waited_in_vain);
    assert_int_equal(ring->impatient, 0); /* copies still wait for other copies */
    const unsigned before = naps.count;
    for (unsigned i = 0; i < 100; i++)
        assert_false(gf_ring_ready(ring, bytes));
    assert_int_equal(naps.count, before);
    gf_setup.request_prepare = NULL;
    gf_ring_end(&context);
}

/* A segment is due when it was unused for the idle time, however late the ring was last searched. */
static void is_due_by_the_segments_last_use(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    pass(idle / 2 + 1);
    gf_slot_release(ring, gf_slot_acquire(ring, GF_MIB(8)));
    pass(idle / 2 + 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0);
    assert_true(gf_load_relaxed(&ring->trim_ns) <
                gf_now_ns() + (uint64_t)(idle / 2 + 2) * 1000000000);
    gf_ring_end(&context);
    pass(-computer.ahead);
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_copies_wait_for_the_ring),
        cmocka_unit_test(waits_for_the_ring_are_limited),
        cmocka_unit_test(is_due_by_the_segments_last_use),
    };
    return cmocka_run_group_tests_name("ring_patience", tests, NULL, NULL);
}
