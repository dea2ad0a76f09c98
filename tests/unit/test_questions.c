/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's queries: engine/gputime/questions.c, on a driver that answers what a test wants, and
 * the hooks' waits for them: preload/attach/submissions.c.
 */
#include "unit.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "engine/gputime/questions.h"
#include "preload/attach/submissions.h"

#define table gf_submissions
static CUresult answer;
static void (*within_query)(CUstream stream); /* called while the driver answers a query */
static unsigned queried[4];                   /* the number of queries of each stream of a test */

#define STREAM(i) ((CUstream)(uintptr_t)(0x10000 + 0x100 * (i)))

static CUresult set_current(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
    for (uintptr_t i = 0; i < GF_ARRAY_LEN(queried); i++)
        queried[i] += stream == STREAM(i);
    if (within_query)
        within_query(stream);
    return answer;
}

static struct gf_answers ask(CUresult result)
{
    static const struct gf_cuda cuda = {.cuCtxSetCurrent = set_current, .cuStreamQuery = query};
    struct gf_answers ret;
    answer = result;
    gf_questions_ask(&cuda, &table, &ret);
    return ret;
}

static void list_contexts(unsigned count)
{
    gf_submissions_unlist_context(NULL, -1);
    for (unsigned i = 0; i < count; i++)
        gf_store_relaxed(&table.contexts[i].context, (uintptr_t)64 * (i + 1));
}

static void an_open_capture_prevents_queries(void **state)
{
    (void)state;
    list_contexts(1);
    gf_store_relaxed(&table.captures, 1);
    assert_false(ask(CUDA_SUCCESS).asked);
    gf_store_relaxed(&table.captures, 0);
    assert_true(ask(CUDA_SUCCESS).asked);
    assert_int_equal(ask(CUDA_ERROR_NOT_READY).questions, 1);
}

/* The hooks did not see the begin of that capture, so they would not see that of another. */
static void a_capture_that_was_not_counted_ends_the_queries(void **state)
{
    (void)state;
    list_contexts(3);
    assert_int_equal(ask(CUDA_ERROR_ILLEGAL_ADDRESS).questions, 3);
    const struct gf_answers first = ask(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(first.questions, 1);
    assert_true(first.device[0].failed);
    assert_false(ask(CUDA_SUCCESS).asked);
}

static bool facts(CUstream stream, struct gf_stream_facts *ret)
{
    (void)stream;
    *ret = (struct gf_stream_facts){.context = (CUcontext)(uintptr_t)64};
    return true;
}

/* Lists streams with work in one context, which is the only one. */
static void list_streams(void)
{
    memset(queried, 0, sizeof(queried));
    gf_submissions_unlist_context(NULL, -1);
    gf_submissions_list_context((CUcontext)(uintptr_t)64, 0);
    for (uintptr_t i = 0; i < GF_ARRAY_LEN(queried); i++)
        gf_store_relaxed(&gf_submissions_list(STREAM(i), facts)->work, gf_work_copy);
}

static _Atomic bool is_answered;
static pthread_t ender;

static void *end_queried(void *stream)
{
    gf_submissions_unlist(stream);
    assert_true(gf_load_seq_cst(&is_answered));
    return NULL;
}

/*
 * During the first query of a stream, all other streams end: that waits for nothing, for this
 * thread would wait for itself. The queried stream ends, too: that waits until its query is over.
 */
static void end_streams(CUstream stream)
{
    if (stream == CU_STREAM_LEGACY)
        return;
    within_query = NULL;
    for (uintptr_t i = 0; i < GF_ARRAY_LEN(queried); i++)
        if (stream != STREAM(i))
            gf_submissions_unlist(STREAM(i));
    assert_int_equal(pthread_create(&ender, NULL, end_queried, stream), 0);
    usleep(50000);
    gf_store_seq_cst(&is_answered, true);
}

static void the_end_of_a_stream_waits_only_for_its_own_query(void **state)
{
    (void)state;
    list_streams();
    within_query = end_streams;
    const struct gf_answers got = ask(CUDA_ERROR_NOT_READY);
    pthread_join(ender, NULL);
    assert_true(got.asked);
    assert_false(got.device[0].failed);
    assert_int_equal(got.questions, 2); /* the legacy stream and the first stream */
    for (size_t i = 0; i < GF_ARRAY_LEN(queried); i++)
        assert_in_range(queried[i], 0, 1);
}

static void end_context(CUstream stream)
{
    within_query = NULL;
    assert_ptr_equal(stream, CU_STREAM_LEGACY);
    /* as gf_submissions_unlist_context; later streams have the same handles */
    gf_store_seq_cst(&table.contexts[0].context, 0);
}

static void streams_of_an_ended_context_are_not_queried(void **state)
{
    (void)state;
    list_streams();
    within_query = end_context;
    assert_int_equal(ask(CUDA_ERROR_NOT_READY).questions, 1);
}

static void begin_capture(CUstream stream)
{
    if (stream != CU_STREAM_LEGACY)
        gf_captures_open(STREAM(9), NULL);
}

static void no_query_begins_in_a_capture(void **state)
{
    (void)state;
    list_streams();
    within_query = begin_capture;
    const struct gf_answers got = ask(CUDA_ERROR_NOT_READY);
    within_query = NULL;
    gf_submissions_await_queries();
    assert_int_equal(got.questions, 2);
    assert_true(got.device[0].failed);
    assert_false(gf_submissions_query_begin());
    gf_captures_close(STREAM(9));
    assert_true(gf_submissions_query_begin());
    gf_submissions_query_end();
    assert_true(ask(CUDA_SUCCESS).asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_stream_waits_only_for_its_own_query),
        cmocka_unit_test(streams_of_an_ended_context_are_not_queried),
        cmocka_unit_test(no_query_begins_in_a_capture),
        cmocka_unit_test(an_open_capture_prevents_queries),
        cmocka_unit_test(a_capture_that_was_not_counted_ends_the_queries),
    };
    return cmocka_run_group_tests_name("questions", tests, NULL, NULL);
}
