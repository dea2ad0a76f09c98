/* SPDX-License-Identifier: Apache-2.0 */
#include "rings.h"

#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/prepare.h"

static uint64_t held_by_all(struct gf_ring *ring)
{
    uint64_t held[GF_NODE_BYTES_COUNT] = {0}, sum = 0;
    gf_ring_held(ring, held);
    for (unsigned i = 0; i < GF_NODE_BYTES_COUNT; i++)
        sum += held[i];
    return sum;
}

/*
 * A report may run in exit() of a signal handler that interrupted a critical section of this
 * thread.
 */
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
    gf_ring_end(&context);
}

static void grows_in_calls_only(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    assert_null(gf_slot_acquire(ring, 1));
    assert_false(gf_ring_ready(ring, GF_MIB(16))); /* requests memory; this copy is not staged */
    assert_int_equal(driver.registered, 0);
    assert_false(gf_ring_ready(ring, GF_MIB(4))); /* too small to be worth the registration */
    assert_int_equal(driver.registered, 0);
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(driver.registered, 1);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want_contiguous(ring, GF_MIB(20));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_ready(ring, GF_MIB(20));
    assert_int_equal(driver.registered, 2);
    assert_int_equal(held_by_all(ring), GF_MIB(48));
    assert_int_equal(driver.largest, GF_MIB(40));
    gf_ring_end(&context);
}

/*
 * A copy only requests memory, and only once; another thread, if there is one, reads the headroom
 * and maps the segment. The first request follows the driver's call, which the mapping would slow
 * down. A copy that waits for more memory requests it at once.
 */
static void copies_only_request(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    gf_setup.request_prepare = count_asking;
    askings = 0;
    for (unsigned i = 0; i < 3; i++)
        assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(askings, 0);
    for (unsigned i = 0; i < 3; i++)
        gf_prepare_deferred();
    assert_int_equal(askings, 1);
    assert_int_equal(driver.registered, 0);
    gf_ring_prepare(ring);
    gf_ring_prepare(ring); /* there is no further request */
    assert_int_equal(driver.registered, 0);
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want_contiguous(ring, GF_MIB(20));
    assert_int_equal(askings, 2);
    gf_setup.request_prepare = NULL;
    gf_ring_prepare(ring);
    gf_ring_ready(ring, GF_MIB(20));
    assert_int_equal(driver.largest, GF_MIB(40));
    gf_ring_end(&context);
}

static void small_copies_register_in_the_end(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    unsigned asked = 0;
    gf_ring_ready(ring, GF_MIB(16));
    while (!gf_ring_ready(ring, GF_KIB(4)) && asked < 1000)
        asked++;
    assert_int_equal(asked, GF_TUNE_RING_PASSED);
    gf_ring_end(&context);
}

static void keeps_to_its_limit(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_MIB(12));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_want_contiguous(ring, GF_MIB(6)); /* no contiguous 6 MiB fit within the limit */
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_end(&context);
    ring = ready(GF_MIB(12));
    gf_ring_want_contiguous(ring, GF_MIB(4));
    gf_ring_ready(ring, GF_MIB(64));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(12));
    gf_ring_end(&context);
}

/* A ring uses only a share of the headroom, so that it does not invoke the OOM killer. */
static void keeps_to_the_headroom(void **state)
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
    gf_ring_want_contiguous(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(6));
    assert_int_equal(driver.largest, GF_MIB(6));
    computer.left = 0;
    pass(-computer.ahead);
    gf_ring_end(&context);
}

static void slots_do_not_overlap(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_slot *taken[64];
    unsigned count = 0;
    while ((taken[count] = gf_slot_acquire(ring, GF_KIB(300))))
        count++;
    assert_int_equal(count, 16); /* 32 units have space for 16 slots of two */
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < i; k++)
            assert_true(taken[i]->at + GF_KIB(300) <= taken[k]->at ||
                        taken[k]->at + GF_KIB(300) <= taken[i]->at);
    gf_slot_release(ring, taken[3]);
    gf_slot_release(ring, taken[9]);
    assert_null(gf_slot_acquire(ring, GF_MIB(1))); /* enough bytes are free, but not contiguous */
    gf_slot_release(ring, taken[4]);
    assert_non_null(gf_slot_acquire(ring, GF_MIB(1)));
    gf_ring_end(&context);
}

static void freed_by_events_only(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_slot *all = gf_slot_acquire(ring, GF_MIB(8));
    assert_non_null(all);
    assert_int_equal(gf_setup.cuda->cuEventRecord(all->event, NULL), 0);
    gf_slot_release_on_event(all);
    assert_null(gf_slot_acquire(ring, 1));
    assert_null(gf_slot_acquire(ring, 1));
    driver.come = (uintptr_t)all->event;
    struct gf_slot *again = gf_slot_acquire(ring, GF_MIB(8));
    assert_non_null(again);
    gf_slot_abandon(ring, again); /* the slot's event is no longer valid */
    driver.come = UINTPTR_MAX;
    assert_null(gf_slot_acquire(ring, 1));
    gf_ring_end(&context);
}

static void out_of_order(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    struct gf_slot *busy = gf_slot_acquire(ring, GF_MIB(4));
    struct gf_slot *other = gf_slot_acquire(ring, GF_MIB(4));
    CUevent late = busy->event;
    busy->event = other->event; /* the later event completes first */
    other->event = late;
    gf_slot_release_on_event(busy);
    gf_slot_release_on_event(other);
    driver.come = 1;
    assert_non_null(gf_slot_acquire(ring, GF_MIB(4)));
    assert_null(gf_slot_acquire(ring, GF_MIB(4)));
    gf_ring_end(&context);
}

static void failures_turn_the_ring_off(void **state)
{
    (void)state;
    struct gf_ring *ring = fresh(GF_SIZE_AUTO);
    driver.enlist = CUDA_ERROR_OUT_OF_MEMORY;
    gf_ring_ready(ring, GF_MIB(16));
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_false(gf_ring_is_on(ring));
    gf_ring_end(&context);
    ring = ready(GF_SIZE_AUTO);
    gf_slot_release_on_event(gf_slot_acquire(ring, GF_MIB(8)));
    driver.query = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_null(gf_slot_acquire(ring, 1));
    assert_false(gf_ring_is_on(ring));
    gf_ring_end(&context);
    ring = fresh(GF_SIZE_AUTO);
    driver.create = CUDA_ERROR_OUT_OF_MEMORY;
    gf_ring_ready(ring, GF_MIB(16));
    assert_false(gf_ring_ready(ring, GF_MIB(16)));
    assert_false(gf_ring_is_on(ring));
    gf_ring_end(&context);
}

/* A failed system call is reported once, with its error. */
static void failed_calls_are_named(void **state)
{
    static const struct {
        bool maps;
        int advice;
        const char *words;
    } kinds[] = {
        {true, 0, "mmap failed: Operation not permitted"},
        {false, MADV_DONTFORK, "madvise(MADV_DONTFORK) failed: Function not implemented"},
        {false, MADV_POPULATE_WRITE,
         "madvise(MADV_POPULATE_WRITE) failed: Function not implemented"},
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
        gf_ring_end(&context);
        /* if a later segment fails, the ring keeps its size */
        ring = ready(GF_SIZE_AUTO);
        computer.maps = kinds[i].maps;
        computer.advice = kinds[i].advice;
        for (unsigned again = 0; again < 3; again++) {
            gf_ring_want_contiguous(ring, GF_MIB(8));
            assert_true(gf_ring_ready(ring, GF_MIB(64)));
        }
        assert_true(gf_ring_is_on(ring));
        assert_int_equal(gf_ring_limit(ring), GF_MIB(8));
        assert_int_equal(told.offs, 0);
        /* One message that the ring has grown, one that it stays. */
        assert_int_equal(told.rings, 2);
        assert_non_null(strstr(told.text, "stays at 8 MiB"));
        assert_non_null(strstr(told.text, kinds[i].words));
        gf_ring_end(&context);
    }
    computer.maps = false;
    computer.advice = 0;
}

static void removes_long_unused_segments(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_ring_want_contiguous(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(24));
    struct gf_slot *held = gf_slot_acquire(ring, GF_MIB(8)),
                   *other = gf_slot_acquire(ring, GF_MIB(8));
    gf_slot_release_on_event(other);
    assert_false(gf_ring_trim_is_due());
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0);
    driver.come = (uintptr_t)other->event;
    pass(idle + 1);
    assert_true(gf_ring_trim_is_due());
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 0); /* one slot is held, the other was freed just now */
    pass(idle + 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 1);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    assert_non_null(strstr(told.text, "has shrunk to 8 MiB"));
    gf_slot_release(ring, held);
    pass(idle + 1);
    driver.remove = CUDA_ERROR_UNKNOWN; /* the segment stays registered and usable */
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 2);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    held = gf_slot_acquire(ring, GF_MIB(8));
    assert_non_null(held);
    gf_slot_release(ring, held);
    pass(idle + 1);
    driver.remove = CUDA_SUCCESS;
    /* Growth is requested, but no copy registers the memory. */
    gf_ring_want_contiguous(ring, GF_MIB(8));
    assert_true(gf_ring_growth_is_on(ring));
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), 0);
    assert_null(gf_slot_acquire(ring, 1));
    assert_false(gf_ring_growth_is_on(ring));
    gf_ring_ready(ring, GF_MIB(16)); /* it grows again on request */
    assert_true(gf_ring_ready(ring, GF_MIB(16)));
    gf_ring_end(&context);
    pass(-computer.ahead);
}

static void call_of_another_thread(void)
{
    gf_store_relaxed(&submissions.submitters[1].stream, (uintptr_t)CU_STREAM_LEGACY);
}

/* The driver's call that unregisters a segment waits for other threads' calls, which may begin during an earlier one. */
static void removes_nothing_beside_calls(void **state)
{
    const time_t idle = GF_TUNE_RING_IDLE_NS / 1000000000;
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    gf_ring_want_contiguous(ring, GF_MIB(8));
    assert_true(gf_ring_ready(ring, GF_MIB(64)));
    pass(idle + 1);
    driver.removes = call_of_another_thread;
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 1);
    gf_ring_trim(&context);
    assert_int_equal(driver.removed, 1);
    gf_store_relaxed(&submissions.submitters[1].stream, 0);
    gf_ring_trim(&context); /* the rest is due at once */
    assert_int_equal(gf_ring_bytes(ring), 0);
    gf_store_relaxed(&submissions.submitters[1].stream, 0);
    gf_ring_end(&context);
    pass(-computer.ahead);
}

/* Many threads use one ring at the same time. The test also runs under ThreadSanitizer. */
static struct gf_ring *shared;

static void *use(void *unused)
{
    for (unsigned i = 0; i < 300; i++) {
        gf_ring_ready(shared, GF_MIB(16));
        struct gf_slot *slot = gf_slot_acquire(shared, GF_KIB(256) * (1 + i % 7));
        if (!slot) {
            gf_ring_want_contiguous(shared, GF_MIB(4));
            continue;
        }
        char *const at = slot->at;
        memset(at, (int)i, GF_KIB(256));
        assert_int_equal((unsigned char)at[GF_KIB(256) - 1], (unsigned char)i);
        gf_setup.cuda->cuEventRecord(slot->event, NULL);
        if (i % 3)
            gf_slot_release_on_event(slot);
        else
            gf_slot_release(shared, slot);
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
    context.pool = gf_pool_get(1999, &any, &(struct gf_pool_size){.threads = 3});
    assert_int_equal(gf_pool_start(context.pool), 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use, NULL), 0);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        pthread_join(thread[i], NULL);
    assert_true(gf_ring_is_on(shared));
    assert_true(gf_ring_bytes(shared) <= GF_MIB(32));
    gf_ring_end(&context);
    pass(-computer.ahead);
}

/* A capture that began during one call of the ring has no effect on the next call. */
static void captures_turn_nothing_off(void **state)
{
    static const CUresult codes[] = {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                                     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_CAPTURED_EVENT};
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    for (size_t i = 0; i < GF_ARRAY_LEN(codes); i++)
        gf_ring_turn_off(ring, "cuEventQuery", codes[i]);
    assert_true(gf_ring_is_on(ring));
    gf_capture_begins();
    gf_capture_begun();
    gf_ring_turn_off(ring, "cuEventQuery", CUDA_ERROR_INVALID_VALUE);
    assert_true(gf_ring_is_on(ring));
    gf_ring_turn_off(ring, "cuEventQuery", CUDA_ERROR_UNKNOWN);
    assert_false(gf_ring_is_on(ring));
    gf_ring_end(&context);
}

/* If no capture has begun, the error cannot come from a capture. */
static void wrong_value_turns_the_ring_off(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    assert_int_equal(gf_captures_begun(), 0);
    gf_ring_turn_off(ring, "cuEventQuery", CUDA_ERROR_INVALID_VALUE);
    assert_false(gf_ring_is_on(ring));
    gf_ring_end(&context);
}

static bool is_captured;
static unsigned asked;

/* While memory is short, a segment is stale after a second. */
static void shortage_hastens_removal(void **state)
{
    (void)state;
    struct gf_ring *ring = ready(GF_SIZE_AUTO);
    const time_t before = gf_load_relaxed(&computer.ahead);
    pass(3);
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), GF_MIB(8));
    gf_ring_trim_soon();
    pass(1);
    assert_true(gf_ring_trim_is_due());
    gf_ring_trim(&context);
    assert_int_equal(gf_ring_bytes(ring), 0);
    gf_ring_end(&context);
    pass(before - gf_load_relaxed(&computer.ahead));
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    asked++;
    *ret = is_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static void *begin_capture(void *begun)
{
    gf_capture_begins();
    gf_store_seq_cst((_Atomic bool *)begun, true);
    gf_capture_begun();
    return NULL;
}

/*
 * The library queries the driver again only after another capture has begun. The beginning of a
 * capture waits until no thread issues work.
 */
static void captures_and_issues_take_turns(void **state)
{
    unsigned seen = gf_captures_begun();
    _Atomic bool begun = false;
    pthread_t thread;
    const struct gf_cuda cuda = {.cuStreamIsCapturing = is_capturing};
    (void)state;
    gf_setup.cuda = &cuda;
    assert_true(gf_issue_enter(NULL, &seen));
    assert_int_equal(asked, 0);
    const uint64_t start = gf_now_ns();
    pthread_create(&thread, NULL, begin_capture, &begun);
    usleep(10000);
    const bool waits = !gf_load_seq_cst(&begun);
    if (gf_now_ns() - start < UINT64_C(900000000)) /* the beginning waits at most 1 s */
        assert_true(waits);
    gf_issue_leave();
    pthread_join(thread, NULL);
    assert_true(gf_issue_enter(NULL, &seen));
    assert_int_equal(asked, 1);
    gf_issue_leave();
    assert_true(gf_issue_enter(NULL, &seen));
    assert_int_equal(asked, 1);
    gf_issue_leave();
    gf_capture_begins();
    assert_false(gf_issue_enter(NULL, &seen)); /* a capture is beginning */
    gf_capture_begun();
    is_captured = true;
    assert_false(gf_issue_enter(NULL, &seen));
    is_captured = false;
    assert_true(gf_issue_enter(NULL, &seen));
    gf_issue_leave();
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_do_not_wait),
        cmocka_unit_test(grows_in_calls_only),
        cmocka_unit_test(small_copies_register_in_the_end),
        cmocka_unit_test(keeps_to_its_limit),
        cmocka_unit_test(slots_do_not_overlap),
        cmocka_unit_test(keeps_to_the_headroom),
        cmocka_unit_test(freed_by_events_only),
        cmocka_unit_test(out_of_order),
        cmocka_unit_test(failures_turn_the_ring_off),
        cmocka_unit_test(failed_calls_are_named),
        cmocka_unit_test(removes_long_unused_segments),
        cmocka_unit_test(removes_nothing_beside_calls),
        cmocka_unit_test(shortage_hastens_removal),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(failures_turn_the_ring_off),
        cmocka_unit_test(wrong_value_turns_the_ring_off),
        cmocka_unit_test(captures_turn_nothing_off),
        cmocka_unit_test(copies_only_request),
        cmocka_unit_test(captures_and_issues_take_turns),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
