/* SPDX-License-Identifier: Apache-2.0 */
#include "pinned_buffer_kit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_failed_free_changes_nothing(void **state)
{
    /* CUDA_ERROR_NOT_PERMITTED is the result of a call inside a host function. */
    static const CUresult answers[] = {CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_NOT_PERMITTED};
    CUresult result;
    (void)state;
    char *p = get(4 * MIB);
    for (unsigned i = 0; i < GF_ARRAY_LEN(answers); i++) {
        driver.on_unregister = answers[i];
        assert_true(give(p, &result));
        assert_int_equal(result, answers[i]);
        assert_int_equal(driver.unregistered, i + 1);
        assert_true(is_mapped(p));
        assert_null(fault_of_free.call);
    }
    driver.on_unregister = CUDA_SUCCESS;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_false(is_mapped(p));
    /*
     * The memory ended with its context, and no hook saw that end. The program gets the error that
     * it would get for the driver's memory.
     */
    p = get(4 * MIB);
    driver.on_unregister = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
    assert_false(is_mapped(p));
}

/*
 * A free in another context unregisters the buffer in its own context before it unmaps the memory.
 */
static void freed_from_another_context(void **state)
{
    CUresult result;
    (void)state;
    char *p = get(4 * MIB), *q = get(4 * MIB);
    driver.owner = (CUcontext)(uintptr_t)0xa0;
    driver.at = p;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_null(driver.current); /* restored */
    assert_false(is_mapped(p));
    driver.at = q;
    driver.on_unregister =
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; /* contradicts the driver's earlier answer */
    assert_true(give(q, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_true(is_mapped(q));
    gf_pinned_buffer_forget(5);
    assert_false(is_mapped(q));
}

/*
 * The program did not cause the failure, so it gets no error. A device may still access the memory,
 * so it stays mapped.
 */
static void what_cannot_be_unregistered_is_kept(void **state)
{
    CUresult result;
    uint64_t held[GF_NODE_BYTES_COUNT], sum = 0;
    (void)state;
    char *p = get(4 * MIB), *q = get(4 * MIB);
    driver.on_unregister = CUDA_ERROR_UNKNOWN;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_int_equal(driver.unregistered, 2); /* with one retry */
    assert_int_equal(driver.synchronized, 1);
    assert_string_equal(fault_of_free.call, "cuMemHostUnregister");
    assert_int_equal(fault_of_free.result, CUDA_ERROR_UNKNOWN);
    assert_true(is_mapped(p));
    assert_false(give(p, &result)); /* the program has already freed it */
    assert_false(gf_pinned_buffer_unregister(&cuda, p, &result));
    driver.on_synchronize =
        CUDA_ERROR_LAUNCH_FAILED; /* an error of the program's work, so the program receives it */
    assert_true(give(q, &result));
    assert_int_equal(result, CUDA_ERROR_LAUNCH_FAILED);
    gf_pinned_buffer_held(held);
    for (size_t i = 0; i < GF_NODE_BYTES_COUNT; i++)
        sum += held[i];
    assert_int_equal(sum, 8 * MIB);
    gf_pinned_buffer_forget(5);
    assert_false(is_mapped(p));
    assert_false(is_mapped(q));
}

/* Neither an unknown error nor an unknown context proves that no device accesses the memory. */
static void what_may_be_registered_is_not_unmapped(void **state)
{
    CUresult result;
    (void)state;
    char *p = get(4 * MIB), *q = get(4 * MIB);
    driver.on_unregister = CUDA_ERROR_INVALID_VALUE;
    assert_true(give(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_int_equal(fault_of_free.result, CUDA_ERROR_INVALID_VALUE);
    assert_true(is_mapped(p));
    driver.on_unregister = CUDA_SUCCESS;
    driver.owner = (CUcontext)(uintptr_t)0xa0;
    driver.keeps_owner = true;
    driver.at = q;
    assert_true(give(q, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    assert_null(driver.current);
    assert_true(is_mapped(q));
    gf_pinned_buffer_forget(5);
    assert_false(is_mapped(p) || is_mapped(q));
}

/* A free removes pages only from the page tables of the process that calls it. */
static void a_child_keeps_what_its_parent_frees(void **state)
{
    int ready[2], status, go;
    CUresult result;
    (void)state;
    char *p = get(48 * MIB);
    for (size_t i = 0; i < 48 * MIB; i += 4096)
        p[i] = (char)(i >> 12 | 1);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        size_t good = 0;
        if (read(ready[0], &go, 1) == 1)
            for (size_t i = 0; i < 48 * MIB; i += 4096)
                good += p[i] == (char)(i >> 12 | 1);
        _exit(good == 48 * 256 ? 7 : 8);
    }
    assert_true(give(p, &result));
    assert_false(is_mapped(p));
    assert_false(is_mapped(p + 48 * MIB - 4096));
    assert_int_equal(write(ready[1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 7 << 8);
    close(ready[0]);
    close(ready[1]);
}

static void buffers_end_with_their_context(void **state)
{
    CUresult result;
    (void)state;
    char *p = get(4 * MIB), *q = get(6 * MIB);
    gf_pinned_buffer_forget(6);
    assert_true(is_mapped(p));
    /* Their context ends during the free of one of them, and that free fails. */
    driver.ends = true;
    driver.on_unregister = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_true(give(q, &result));
    assert_int_equal(result, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_false(is_mapped(p));
    assert_false(is_mapped(q));
    assert_false(give(p, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_failed_free_changes_nothing, start),
        cmocka_unit_test_setup(freed_from_another_context, start),
        cmocka_unit_test_setup(what_cannot_be_unregistered_is_kept, start),
        cmocka_unit_test_setup(what_may_be_registered_is_not_unmapped, start),
        cmocka_unit_test_setup(a_child_keeps_what_its_parent_frees, start),
        cmocka_unit_test_setup(buffers_end_with_their_context, start),
    };
    return cmocka_run_group_tests_name("pinned_free", tests, NULL, NULL);
}
