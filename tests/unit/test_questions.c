/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's queries: engine/gputime/questions.c, on a driver that answers what a test wants. */
#include "unit.h"

#include "base/atomic.h"
#include "engine/gputime/questions.h"

static struct gf_submit_table table;
static CUresult answer;

static CUresult set_current(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
    (void)stream;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_capture_prevents_queries),
        cmocka_unit_test(a_capture_that_was_not_counted_ends_the_queries),
    };
    return cmocka_run_group_tests_name("questions", tests, NULL, NULL);
}
