/* SPDX-License-Identifier: Apache-2.0 */
#include "context_driver.h"

#include "base/clock.h"
#include "engine/transfer/capture_gate.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static CUresult stream_context_fails(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
    (void)stream, (void)ret, (void)ret_green;
    return CUDA_ERROR_INVALID_CONTEXT;
}

static void known_by_id(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(16), 101);
    assert_non_null(a);
    assert_int_equal(a->node, 7);
    assert_false(a->primary);
    assert_int_equal(driver.references, 0);
    assert_non_null(a->pool);
    gf_context_leave(a);
    assert_ptr_equal(enter_as(HANDLE(16), 101), a);
    gf_context_leave(a);
    /* the same handle for another context */
    struct gf_context *b = enter_as(HANDLE(16), 102);
    assert_ptr_not_equal(a, b);
    gf_context_leave(b);
    assert_null(enter_as(NULL, 0));
}

static void destroyed_contexts_end(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(32), 201);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    assert_null(enter_as(HANDLE(32), 201));
    /* The driver refused, so the context stays. */
    gf_context_left(HANDLE(32), -1, CUDA_ERROR_INVALID_CONTEXT);
    assert_ptr_equal(enter_as(HANDLE(32), 201), a);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    /* After cuCtxDetach the context stays, because another thread is attached. */
    gf_context_left(HANDLE(32), -1, CUDA_SUCCESS);
    assert_ptr_equal(enter_as(HANDLE(32), 201), a);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    driver.current = NULL;
    gf_context_left(HANDLE(32), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0); /* released */
}

/*
 * Records the calls of the two end functions. The library calls them in the order of the table, on
 * one thread, before it reuses the context's entry.
 */
static _Thread_local struct {
    unsigned calls;
    unsigned long long first, second;
} ended;

static void end_first(struct gf_context *context)
{
    ended.first = gf_context_id(context);
    ended.calls++;
}

static void end_second(struct gf_context *context)
{
    assert_int_equal(ended.first, gf_context_id(context));
    ended.second = gf_context_id(context);
    ended.calls++;
}

static void end_functions_run_once(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(40), 251);
    memset(&ended, 0, sizeof(ended));
    gf_context_leaving(HANDLE(40), -1);
    driver.current = NULL;
    gf_context_left(HANDLE(40), -1, CUDA_SUCCESS);
    assert_int_equal(ended.calls, 0); /* a call is still inside the context */
    gf_context_leave(a);
    assert_int_equal(ended.calls, 2);
    assert_int_equal(ended.first, 251);
    assert_int_equal(ended.second, 251);
    gf_context_left(HANDLE(40), -1, CUDA_SUCCESS);
    assert_int_equal(ended.calls, 2);
}

static void last_call_releases(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(48), 301);
    driver.current = NULL;
    gf_context_leaving(HANDLE(48),
                       -1); /* waits for a limited time: the program destroys a context in use */
    gf_context_left(HANDLE(48), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 301);
    gf_context_leave(a);
    assert_int_equal(a->id, 0);
}

/* Another thread creates a context with the same handle before gf_context_left is called. */
static void handle_used_again(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(56), 351);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(56), -1);
    struct gf_context *b = enter_as(HANDLE(56), 352);
    assert_non_null(b);
    gf_context_leave(b);
    driver.current = NULL;
    gf_context_left(HANDLE(56), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
    assert_int_equal(b->id, 352);
    assert_ptr_equal(enter_as(HANDLE(56), 352), b);
    gf_context_leave(b);
}

/* The end of a context waits for copies that are under way in it. */
static void *leave_late(void *context)
{
    usleep(50000);
    gf_store_seq_cst(&driver.references, 77);
    gf_context_leave(context);
    return NULL;
}

static void running_copies_end_first(void **state)
{
    pthread_t thread;
    (void)state;
    struct gf_context *a = enter_as(HANDLE(60), 361);
    assert_int_equal(pthread_create(&thread, NULL, leave_late, a), 0);
    const uint64_t since = gf_now_ns();
    gf_context_leaving(HANDLE(60), -1);
    const bool waited = gf_load_seq_cst(&driver.references) == 77;
    const bool gave_up = gf_now_ns() - since >= UINT64_C(1000000000); /* the wait is limited */
    pthread_join(thread, NULL);
    assert_true(waited || gave_up);
    driver.references = 0;
    driver.current = NULL;
    gf_context_left(HANDLE(60), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
}

static void primary(void **state)
{
    (void)state;
    driver.primary = HANDLE(64);
    struct gf_context *a = enter_as(HANDLE(64), 401);
    assert_true(a->primary);
    assert_int_equal(driver.references, 0);
    /*
     * one of several references is released during a copy: the release does not wait, and the
     * context stays
     */
    gf_context_leaving(NULL, 0);
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    gf_context_leave(a);
    assert_ptr_equal(enter_as(HANDLE(64), 401), a);
    gf_context_leave(a);
    /* two releases at once: the first returns before the second has ended the context */
    gf_context_leaving(NULL, 0);
    gf_context_leaving(NULL, 0);
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    driver.active = 0;
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
}

/*
 * The program releases its last reference while the library queries the context: the library's
 * reference then creates another context with the same handle.
 */
static void a_context_made_by_the_question_is_not_the_primary_one(void **state)
{
    (void)state;
    driver.primary = HANDLE(72);
    driver.retained_id = 399;
    struct gf_context *a = enter_as(HANDLE(72), 398);
    driver.retained_id = 0;
    assert_non_null(a);
    assert_false(a->primary);
    assert_int_equal(driver.references, 0);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(72), -1);
    driver.current = NULL;
    gf_context_left(HANDLE(72), -1, CUDA_SUCCESS);
}

/*
 * The program releases its last reference while the library holds one, or at once retains the
 * context again. After the release, the device has another primary context.
 */
static void primary_retained_again(void **state)
{
    (void)state;
    driver.primary = HANDLE(64);
    struct gf_context *a = enter_as(HANDLE(64), 411);
    gf_context_leaving(NULL, 0);
    gf_context_left(NULL, 0, CUDA_SUCCESS); /* still active */
    gf_context_leave(a);
    assert_int_equal(a->id, 411);
    struct gf_context *b = enter_as(HANDLE(64), 412);
    assert_ptr_not_equal(a, b);
    assert_int_equal(a->id, 0);
    gf_context_leave(b);
    gf_context_leaving(NULL, 0);
    driver.active = 0;
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    assert_int_equal(b->id, 0);
}

static void other_devices(void **state)
{
    (void)state;
    driver.primary = HANDLE(80);
    struct gf_context *a = enter_as(HANDLE(80), 501);
    gf_context_leave(a);
    gf_context_leaving(NULL, 1);
    driver.active = 0;
    gf_context_left(NULL, 1, CUDA_SUCCESS);
    assert_int_equal(a->id, 501);
}

/* The end of a green context may end the primary context of any device. */
static void any_device(void **state)
{
    (void)state;
    driver.primary = HANDLE(96);
    struct gf_context *a = enter_as(HANDLE(96), 601), *b = enter_as(HANDLE(97), 602);
    gf_context_leave(a);
    gf_context_leave(b);
    gf_context_leaving(NULL, GF_ANY_DEVICE);
    assert_null(enter_as(HANDLE(96), 601));
    gf_context_left(NULL, GF_ANY_DEVICE, CUDA_SUCCESS); /* other references hold it */
    assert_ptr_equal(enter_as(HANDLE(96), 601), a);
    gf_context_leave(a);
    gf_context_leaving(NULL, GF_ANY_DEVICE);
    driver.active = 0;
    gf_context_left(NULL, GF_ANY_DEVICE, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
    assert_int_equal(b->id, 602);
}

/*
 * The GPUs of Grace and Tegra use the host's page tables; a GPU that faults pages in (HMM) does
 * not. The node is the device's.
 */
static void shared_page_tables(void **state)
{
    static const struct {
        CUdevice_attribute has;
        bool shares;
    } kinds[] = {{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, true},
                 {CU_DEVICE_ATTRIBUTE_INTEGRATED, true},
                 {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, false},
                 {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, false}};
    (void)state;
    driver.device = 3;
    for (unsigned i = 0; i < GF_ARRAY_LEN(kinds); i++) {
        driver.has = kinds[i].has;
        struct gf_context *context = enter_as(HANDLE(128 + i), 801 + i);
        assert_non_null(context);
        assert_int_equal(context->shares_pages, kinds[i].shares);
        assert_int_equal(context->device, 3);
        assert_int_equal(context->node, 10);
        gf_context_leave(context);
    }
    driver.device = 0;
    driver.has = 0;
}

/*
 * Green contexts get no entry, whichever of the two queries the driver has. If the query fails, the
 * context counts as green.
 */
static void green(void **state)
{
    struct gf_cuda cuda = *gf_setup.cuda;
    const struct gf_cuda *before = gf_setup.cuda;
    (void)state;
    gf_setup.cuda = &cuda;
    for (unsigned way = 0; way < 3; way++) {
        cuda.cuStreamGetCtx_v2 = way == 0 ? stream_context : way == 2 ? stream_context_fails : NULL;
        cuda.cuStreamGetGreenCtx = way == 1 ? stream_green : NULL;
        driver.green = true;
        assert_null(enter_as(HANDLE(112), 701 + way));
        driver.green = false;
        struct gf_context *context = enter_as(HANDLE(112), 701 + way);
        assert_true(way == 2 ? !context : context && context->id == 701 + way);
        if (context)
            gf_context_leave(context);
    }
    gf_setup.cuda = before;
}

static struct {
    pthread_t thread;
    uint64_t since_ns;
    _Atomic uint64_t ns; /* how long gf_capture_begins took; 0: it has not returned */
} capture;

static void *begin_capture(void *unused)
{
    gf_capture_begins();
    gf_store_release(&capture.ns, gf_now_ns() - capture.since_ns);
    gf_capture_begun();
    return unused;
}

static CUresult is_uncaptured(CUstream stream, CUstreamCaptureStatus *ret)
{
    *ret = CU_STREAM_CAPTURE_STATUS_NONE;
    return stream == CU_STREAM_LEGACY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The query of the legacy stream would end a capture of a blocking stream. */
static CUresult query_beside_a_capture(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
    capture.since_ns = gf_now_ns();
    assert_int_equal(pthread_create(&capture.thread, NULL, begin_capture, NULL), 0);
    usleep(20000);
    const uint64_t ns = gf_load_acquire(&capture.ns);
    assert_true(ns == 0 || ns >= 100000000); /* the wait is limited */
    return stream_context(stream, ret, ret_green);
}

static void no_capture_begins_during_the_query(void **state)
{
    struct gf_cuda cuda = *gf_setup.cuda;
    const struct gf_cuda *before = gf_setup.cuda;

    (void)state;
    cuda.cuStreamIsCapturing = is_uncaptured;
    cuda.cuStreamGetCtx_v2 = query_beside_a_capture;
    gf_setup.cuda = &cuda;
    struct gf_context *context = enter_as(HANDLE(120), 751);
    assert_non_null(context);
    gf_context_leave(context);
    pthread_join(capture.thread, NULL);
    assert_int_not_equal(gf_load_acquire(&capture.ns), 0);
    gf_setup.cuda = before;
}

static void more_contexts_than_entries(void **state)
{
    (void)state;
    unsigned known = 0;
    for (unsigned i = 0; i < 2 * GF_CONTEXTS; i++) {
        struct gf_context *context = enter_as(HANDLE(1000 + i), 1000 + i);
        if (context) {
            known++;
            gf_context_leave(context);
        }
    }
    assert_true(known > GF_CONTEXTS / 2 && known <= GF_CONTEXTS);
    driver.current = NULL;
    for (unsigned i = 0; i < 2 * GF_CONTEXTS; i++) {
        gf_context_leaving(HANDLE(1000 + i), -1);
        gf_context_left(HANDLE(1000 + i), -1, CUDA_SUCCESS);
    }
    struct gf_context *context = enter_as(HANDLE(2000), 2000);
    assert_non_null(context);
    gf_context_leave(context);
}

/* Threads enter and leave a context while it ends and another context gets its handle. */
static struct {
    _Atomic(unsigned long long) id; /* of the live context */
    _Atomic bool over;
    _Atomic unsigned entered;
} turn;

static CUresult living_id(CUcontext handle, unsigned long long *ret)
{
    (void)handle;
    *ret = gf_load_acquire(&turn.id);
    return CUDA_SUCCESS;
}

static void *come_and_go(void *unused)
{
    while (!gf_load_acquire(&turn.over)) {
        struct gf_context *context = gf_context_enter();
        if (!context)
            continue;
        assert_int_not_equal(context->id, 0);
        assert_non_null(context->pool);
        gf_add_relaxed(&turn.entered, 1);
        gf_context_leave(context);
    }
    return unused;
}

static void threads_and_ends(void **state)
{
    struct gf_cuda cuda = *gf_setup.cuda;
    const struct gf_cuda *before = gf_setup.cuda;
    pthread_t thread[4];
    (void)state;
    cuda.cuCtxGetId = living_id;
    gf_setup.cuda = &cuda;
    driver.current = HANDLE(3000);
    driver.primary = NULL;
    turn.id = 3000;
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 1; i <= 100; i++) {
        const unsigned seen = gf_load_relaxed(&turn.entered);
        for (unsigned k = 0; k < 5000 && gf_load_relaxed(&turn.entered) == seen; k++)
            usleep(100);
        gf_context_leaving(HANDLE(3000), -1);
        gf_store_release(&turn.id, 3000 + i); /* the same handle for another context */
        gf_context_left(HANDLE(3000), -1, CUDA_SUCCESS);
    }
    gf_store_release(&turn.over, true);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        pthread_join(thread[i], NULL);
    assert_true(gf_load_relaxed(&turn.entered) >= 100);
    gf_setup.cuda = before;
}

/* If the nodes of two GPUs are unknown, their pools may still have different CPUs. */
static void pools_of_unknown_nodes(void **state)
{
    struct gf_cpus first = {0}, second = {0};
    (void)state;
    gf_set_add(&first, 1);
    gf_set_add(&second, 2);
    struct gf_pool *pool = gf_pool_get(-1, &first, &(struct gf_pool_size){.threads = 4});
    assert_ptr_equal(gf_pool_get(-1, &first, &(struct gf_pool_size){.threads = 4}), pool);
    assert_ptr_not_equal(gf_pool_get(-1, &second, &(struct gf_pool_size){.threads = 4}), pool);
    pool = gf_pool_get(1, &first, &(struct gf_pool_size){.threads = 4});
    assert_ptr_equal(gf_pool_get(1, &second, &(struct gf_pool_size){.threads = 4}), pool);
}

int main(void)
{
    static struct gf_options options;
    static void (*const ends[])(struct gf_context *) = {end_first, end_second, NULL};
    gf_context_on_end(ends);
    gf_setup = (struct gf_transfer_setup){
        .options = &options, .cuda = &context_cuda, .device_node = device_node};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_by_id),
        cmocka_unit_test(destroyed_contexts_end),
        cmocka_unit_test(end_functions_run_once),
        cmocka_unit_test(last_call_releases),
        cmocka_unit_test(handle_used_again),
        cmocka_unit_test(running_copies_end_first),
        cmocka_unit_test(primary),
        cmocka_unit_test(a_context_made_by_the_question_is_not_the_primary_one),
        cmocka_unit_test(primary_retained_again),
        cmocka_unit_test(other_devices),
        cmocka_unit_test(any_device),
        cmocka_unit_test(shared_page_tables),
        cmocka_unit_test(green),
        cmocka_unit_test(no_capture_begins_during_the_query),
        cmocka_unit_test(more_contexts_than_entries),
        cmocka_unit_test(pools_of_unknown_nodes),
        cmocka_unit_test(threads_and_ends),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
