/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams a thread need not try to list, what a launch on such a stream records, and what a result of a stream counts as
 * that another thread unlists.
 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "preload/attach/attach.h"
#include "preload/hook/driver_call.h"
#include "preload/hook/timed_call.h"
#include "preload/attach/submissions.h"

static const CUstream one = (CUstream)(uintptr_t)0x1000;

/* There is no driver, and no engine. */
const struct gf_cuda *gf_driver_functions(void)
{
    static const struct gf_cuda none;
    return &none;
}

const struct gf_engine *gf_engine_enter(void)
{
    return NULL;
}

void gf_engine_leave(void)
{
}

bool gf_stream_is_uncaptured(const struct gf_cuda *cuda, CUstream stream)
{
    (void)cuda, (void)stream;
    return true;
}

static unsigned epoch_now(void)
{
    return gf_load_acquire(&gf_submissions_epoch);
}

static void test_a_stream_is_found_until_the_table_changes(void **state)
{
    (void)state;
    assert_null(gf_unlisted_find(one, epoch_now()));
    gf_unlisted_add(one, epoch_now(), 3);
    assert_non_null(gf_unlisted_find(one, epoch_now()));
    assert_int_equal(gf_unlisted_find(one, epoch_now())->device, 3);
    gf_submissions_unlist((CUstream)(uintptr_t)0x2000);
    assert_null(gf_unlisted_find(one, epoch_now()));
    gf_unlisted_add(one, epoch_now(), 3);
    gf_submissions_unlist_context(NULL, 0);
    assert_null(gf_unlisted_find(one, epoch_now()));
}

static void test_a_stream_is_tried_again(void **state)
{
    (void)state;
    gf_unlisted_add(one, epoch_now(), 0);
    for (unsigned i = 0; i < GF_UNLISTED_RETRY; i++)
        assert_non_null(gf_unlisted_find(one, epoch_now()));
    assert_null(gf_unlisted_find(one, epoch_now()));
}

static void test_streams_may_collide(void **state)
{
    (void)state;
    for (uintptr_t i = 1; i <= 2 * (uintptr_t)GF_UNLISTED_STREAMS; i++) {
        const CUstream stream = (CUstream)(i * 0x10000);
        gf_unlisted_add(stream, epoch_now(), (int)i);
        assert_int_equal(gf_unlisted_find(stream, epoch_now())->device, (int)i);
    }
}

static void *look(void *unused)
{
    assert_null(gf_unlisted_find(one, epoch_now()));
    return unused;
}

static void test_each_thread_has_its_own_streams(void **state)
{
    pthread_t thread;

    (void)state;
    gf_unlisted_add(one, epoch_now(), 0);
    assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The common record stays empty, so that each launch looks for a gap that it ends. */
static void test_a_launch_leaves_the_common_record_empty(void **state)
{
    const struct gf_submission submission = {
        .set = 1, .work = gf_work_kernel, .stream_work = &gf_submissions_elsewhere};

    (void)state;
    gf_submit_end(&submission);
    assert_int_equal(gf_load_relaxed(&gf_submissions_elsewhere), 0);
    assert_int_equal(gf_load_relaxed(&gf_submissions.submitters[0].ended), 1);
}

static void test_a_gap_is_open_until_a_launch_ends_it(void **state)
{
    (void)state;
    assert_false(gf_submissions_has_gap(1));
    gf_store_relaxed(&gf_submissions.gaps[1].open, true);
    assert_true(gf_submissions_has_gap(1));
    assert_false(gf_submissions_has_gap(0));
    gf_submissions_end_gap(1);
    assert_false(gf_submissions_has_gap(1));
    assert_false(gf_submissions_has_gap(-1));
    assert_false(gf_submissions_has_gap(GF_SUBMIT_DEVICES));
}

/* The whole pages of the table. */
static int protect_records(int protection)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = ((uintptr_t)&gf_submissions + page - 1) / page * page;
    return mprotect((void *)start, (uintptr_t)(&gf_submissions + 1) / page * page - start,
                    protection);
}

static bool describe(CUstream stream, struct gf_stream_facts *ret)
{
    (void)stream;
    *ret = (struct gf_stream_facts){.context = (CUcontext)(uintptr_t)0x3000, .blocking = false};
    return true;
}

static volatile bool relists;

/* What another thread does between the look-up of the stream and the first store of its count. */
static void unlist_one(int number)
{
    (void)number;
    if (protect_records(PROT_READ | PROT_WRITE) != 0)
        _exit(1);
    gf_submissions_unlist(one);
    if (relists)
        gf_submissions_list(one, describe);
}

static void submit_while_another_thread_unlists(void)
{
    const struct sigaction action = {.sa_handler = unlist_one};
    struct sigaction before;

    gf_store_relaxed(&gf_submissions.on, gf_submit_held);
    gf_store_relaxed(&gf_submissions.uncounted_visible, false);
    assert_non_null(gf_submissions_list(one, describe));
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(protect_records(PROT_READ), 0);
    gf_submit_visible(one, CUDA_SUCCESS);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    gf_store_relaxed(&gf_submissions.on, 0);
}

/* Waits for the legacy stream do not include the stream, so they must not end its result. */
static void test_a_result_of_a_stream_that_leaves_is_uncounted(void **state)
{
    (void)state;
    submit_while_another_thread_unlists();
    assert_null(gf_submissions_visible(one, NULL));
    assert_true(gf_load_relaxed(&gf_submissions.uncounted_visible));
}

static void test_a_result_of_a_stream_that_returns_is_uncounted(void **state)
{
    (void)state;
    relists = true;
    submit_while_another_thread_unlists();
    assert_non_null(gf_submissions_visible(one, NULL));
    assert_true(gf_load_relaxed(&gf_submissions.uncounted_visible));
}

/* The look-up found the slot, and another stream has it when the facts are read. */
static void test_a_stream_whose_slot_another_one_has_counts_as_blocking(void **state)
{
    struct gf_stream_slot *const slot = gf_submissions_list(one, describe);

    (void)state;
    assert_int_equal(gf_submissions_stream_of(slot, one), (uintptr_t)one | GF_SUBMIT_NON_BLOCKING);
    assert_int_equal(gf_submissions_stream_of(slot, (CUstream)0x2000), 0x2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_is_found_until_the_table_changes),
        cmocka_unit_test(test_a_stream_is_tried_again),
        cmocka_unit_test(test_streams_may_collide),
        cmocka_unit_test(test_each_thread_has_its_own_streams),
        cmocka_unit_test(test_a_launch_leaves_the_common_record_empty),
        cmocka_unit_test(test_a_gap_is_open_until_a_launch_ends_it),
        cmocka_unit_test(test_a_result_of_a_stream_that_leaves_is_uncounted),
        cmocka_unit_test(test_a_result_of_a_stream_that_returns_is_uncounted),
        cmocka_unit_test(test_a_stream_whose_slot_another_one_has_counts_as_blocking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
