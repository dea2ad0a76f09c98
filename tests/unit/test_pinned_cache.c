/* SPDX-License-Identifier: Apache-2.0 */
#include "block_driver.h"

#include "base/atomic.h"
#include "engine/transfer/context.h"
#include "engine/transfer/pinned/pinned.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static void *get_as(size_t bytes, unsigned flags)
{
    void *p = NULL;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 32, &p, bytes, flags), CUDA_SUCCESS);
    assert_non_null(p);
    return p;
}

static void *get(size_t bytes)
{
    return get_as(bytes, 0);
}

static _Atomic uint64_t kept_by; /* the context that the last free returned */

static CUresult try(void *p)
{
    CUresult result = 99;
    uint64_t kept = 99;
    bool reusable;
    assert_true(gf_pinned_cache_free(&cuda, p, &result, &kept, &reusable));
    gf_store_relaxed(&kept_by, kept);
    return result;
}

static void give(void *p)
{
    assert_int_equal(try(p), CUDA_SUCCESS);
}

/* Returns the flags that the program would read. */
static unsigned flags_of(const void *p)
{
    unsigned flags = mapping_of(p)->flags;
    gf_pinned_cache_flags(&cuda, p, &flags);
    return flags;
}

static bool all(const void *p, size_t bytes, unsigned char byte)
{
    const unsigned char *at = p;
    return at[0] == byte && memcmp(at, at + 1, bytes - 1) == 0;
}

static void a_lone_block_makes_one_mapping(void **state)
{
    static const size_t sizes[] = {1, 100, 4095, 4097, 70000, MIB - 1, MIB, 2 * MIB - 2 * PAGE};
    (void)state;
    for (unsigned turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < GF_ARRAY_LEN(sizes); i++) {
            void *p = get(sizes[i]);
            assert_true(all(p, sizes[i], 0)); /* zero, as in a fresh mapping */
            assert_int_equal((uintptr_t)p % PAGE, 0);
            memset(p, 0xee, sizes[i]);
            give(p);
        }
    assert_int_equal(driver.made, 1);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
}

static void beside_another_block_nothing_is_zeroed(void **state)
{
    (void)state;
    void *neighbour = get(300), *p = get(MIB);
    assert_int_equal((uintptr_t)p % PAGE, 512);
    assert_true(all(p, MIB, 0));
    memset(p, 0xee, MIB);
    give(p);
    assert_ptr_equal(get(MIB), p);
    assert_true(all(p, MIB, 0xee)); /* not zeroed, as by the driver */
    give(p);
    give(neighbour);
    p = get(MIB);
    assert_true(all(p, MIB, 0));
}

static void keepalives_are_unknown_to_the_program(void **state)
{
    CUresult result = 99;
    (void)state;
    uint64_t kept;
    bool reusable;
    void *p = get(MIB), *keepalive = mapping_of(p)->at;
    assert_ptr_equal(p, (char *)keepalive + PAGE);
    assert_int_equal(try(keepalive), CUDA_ERROR_INVALID_VALUE);
    assert_true(gf_pinned_cache_unregister(&cuda, keepalive, &result));
    assert_int_equal(result, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_false(gf_pinned_cache_unregister(&cuda, p, &result));
    give(p);
    assert_false(gf_pinned_cache_unregister(&cuda, p, &result));
    assert_false(gf_pinned_cache_free(&cuda, p, &result, &kept, &reusable));
}

/*
 * Each call of the program causes the same call of the driver. An allocation never causes a free,
 * which would wait.
 */
static void no_allocation_waits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        void *p = get_as(4096, i % 2), *q = get(MIB), *r = get(MIB);
        assert_int_equal(driver.waits, 3 * i);
        give(p);
        give(r);
        give(q);
        assert_int_equal(driver.waits, 3 * (i + 1));
    }
    assert_int_equal(driver.allocs, 3 * 6 + 1);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
}

/* A mapping has the flags of the block for which the driver would have created it. */
static void flags_are_as_without_the_library(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        void *first = get_as(4096, i % 2), *second = get_as(4096, (i + 1) % 2);
        assert_int_equal(flags_of(first), i % 2);
        assert_int_equal(flags_of(second), i % 2);
        give(first);
        assert_int_equal(flags_of(second), i % 2);
        give(second);
    }
    assert_int_equal(driver.made, 1);
}

static void refused_beside_a_capture_once(void **state)
{
    void *p = NULL;
    (void)state;
    driver.refuse = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 32, &p, MIB, 0), driver.refuse);
    assert_int_equal(driver.allocs, 1);
    driver.refuse = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 32, &p, MIB, 0), driver.refuse);
    assert_null(p);
    driver.refuse = CUDA_SUCCESS;
    give(get(MIB));
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    /* If a keepalive exists, the library makes no call of its own. */
    driver.refuse = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    driver.allocs = 0;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 32, &p, MIB, 0), driver.refuse);
    assert_int_equal(driver.allocs, 1);
}

static void trim_meanwhile(void)
{
    driver.meanwhile = NULL;
    assert_true(gf_pinned_cache_trim(&cuda, CONTEXT));
}

/*
 * Another thread trims the cache during an allocation. The new block then keeps the mapping alive,
 * and the mapping is no longer known as fresh.
 */
static void forgotten_chunks_are_not_fresh(void **state)
{
    (void)state;
    void *p = get(MIB);
    memset(p, 0xee, MIB);
    give(p);
    driver.meanwhile = trim_meanwhile;
    p = get(MIB);
    assert_true(all(p, MIB, 0));
    give(p);
}

static void no_more_than_allowed_is_kept(void **state)
{
    void *p = NULL, *q = NULL;
    (void)state;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 0, &p, MIB, 0), CUDA_SUCCESS);
    assert_int_equal(driver.allocs, 1);
    give(p);
    assert_null(mapping_of(p));
    /* The limit of one mapping applies to all contexts together. */
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 1, &p, MIB, 0), CUDA_SUCCESS);
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT + 1, 1, &q, MIB, 0), CUDA_SUCCESS);
    assert_int_equal(driver.allocs, 4);
    give(q);
    give(p);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    gf_pinned_cache_forget(CONTEXT + 1);
}

static void trim_frees_the_mapping(void **state)
{
    (void)state;
    void *p = get(MIB);
    assert_false(gf_pinned_cache_trim(&cuda, CONTEXT)); /* the mapping still has a block */
    assert_false(gf_pinned_cache_trim(&cuda, CONTEXT + 1));
    give(p);
    driver.fail_free = CUDA_ERROR_LAUNCH_FAILED;
    assert_false(gf_pinned_cache_trim(&cuda, CONTEXT));
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    driver.fail_free = CUDA_SUCCESS;
    assert_true(gf_pinned_cache_trim(&cuda, CONTEXT));
    assert_false(gf_pinned_cache_trim(&cuda, CONTEXT));
    assert_null(mapping_of(p));
    assert_int_equal(gf_pinned_cache_kept(), 0);
    /* A new mapping may have the same address. It is fresh, and is kept again. */
    p = get(MIB);
    assert_true(all(p, MIB, 0));
    give(p);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
}

/*
 * Only the free of a mapping's last block returns its context, because without the cache it would
 * wait for that context.
 */
static void frees_return_the_kept_context(void **state)
{
    (void)state;
    void *p = get(MIB), *beside = get(4096), *q = get(MIB), *r = get(MIB);
    assert_ptr_equal(mapping_of(p), mapping_of(beside));
    assert_ptr_not_equal(mapping_of(p), mapping_of(q));
    assert_ptr_equal(mapping_of(q), mapping_of(r));
    give(p);
    assert_int_equal(kept_by, 0);
    assert_int_equal(try((char *)beside + 256), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(kept_by, 0);
    give(beside);
    assert_int_equal(kept_by, CONTEXT);
    give(q); /* q's mapping still has another block */
    assert_int_equal(kept_by, 0);
    give(r);
    assert_int_equal(kept_by, 0);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
}

static void a_failed_free_changes_nothing(void **state)
{
    (void)state;
    void *p = get(70000);
    driver.fail_free = CUDA_ERROR_LAUNCH_FAILED;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(try(p), CUDA_ERROR_LAUNCH_FAILED);
    driver.fail_free = CUDA_SUCCESS;
    assert_int_equal(try((char *)p + 4096), CUDA_ERROR_INVALID_VALUE);
    give(p);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    assert_true(all(get(70000), 70000, 0));
}

static void foreign_blocks_are_left_alone(void **state)
{
    void *p = NULL;
    CUresult result;
    uint64_t kept;
    bool reusable;
    (void)state;
    assert_false(gf_pinned_cache_free(&cuda, &p, &result, &kept, &reusable));
    assert_int_equal(host_alloc(&p, 4096, 0), CUDA_SUCCESS);
    assert_false(gf_pinned_cache_free(&cuda, p, &result, &kept, &reusable));
    free_host(p);
}

static void ended_contexts_are_forgotten(void **state)
{
    (void)state;
    CUresult result;
    uint64_t kept;
    bool reusable;
    void *p = get(MIB);
    gf_pinned_cache_forget(CONTEXT);
    assert_int_equal(gf_pinned_cache_kept(), 0);
    assert_false(gf_pinned_cache_free(&cuda, p, &result, &kept, &reusable));
}

/* Whether children inherit the mapping. A sanitizer's child maps memory of its own in its place. */
static bool is_inherited(const struct mapping *m)
{
    unsigned char present;
    int status;
    volatile char *first = m->at;
    const char was = *first;
    *first = 0x5a;
    const pid_t child = fork();
    if (child == 0)
        _exit(mincore(m->at, PAGE, &present) == 0 && *first == 0x5a);
    *first = was;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status);
}

static void fork_once(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Also before the program's first block, when only the keepalive is there. */
static void only_live_blocks_are_inherited(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        void *p = get(70000), *q = get(3 * MIB / 2 - 4096);
        const struct mapping *m = mapping_of(p);
        give(p);
        give(q);
        assert_false(is_inherited(m));
        p = get(70000);
        assert_ptr_equal(mapping_of(p), m);
        give(p);
    }
    void *p = get(70000);
    assert_true(is_inherited(mapping_of(p)));
    give(p);
    start(NULL);
    void *q = NULL;
    assert_int_equal(gf_pinned_cache_alloc(&cuda, CONTEXT, 32, &q, 2 * MIB - PAGE, 0),
                     CUDA_SUCCESS);
    for (size_t i = 0; i < MAPPINGS; i++)
        if (mappings[i].at && mappings[i].at != mapping_of(q)->at)
            assert_false(is_inherited(&mappings[i]));
}

/*
 * A child has the mapping of the block. If the block were freed first, another thread's block could
 * get its place before the keepalive is freed, and the child would see that block.
 */
static void the_keepalive_of_an_inherited_mapping_is_freed_first(void **state)
{
    (void)state;
    void *p = get(70000), *keepalive = mapping_of(p)->at;
    fork_once();
    give(p);
    assert_ptr_equal(driver.first_freed, keepalive);
    assert_int_equal(driver.frees, 2);
    assert_null(mapping_of(p));
    assert_int_equal(kept_by, 0);
    give(get(70000));
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
}

static void fork_meanwhile(void)
{
    driver.meanwhile = NULL;
    fork_once();
}

/* A child is forked after the keepalive was allocated, and before its mapping is hidden. */
static void a_mapping_that_was_seen_too_early_is_not_kept(void **state)
{
    (void)state;
    driver.meanwhile = fork_meanwhile;
    void *p = get(70000);
    give(p);
    assert_null(mapping_of(p));
}

/* Another block may be in the mapping, which the library does not know. */
static void nothing_is_kept_beside_uncounted_blocks(void **state)
{
    (void)state;
    gf_pinned_cache_set_complete(false);
    void *p = get(70000);
    assert_int_equal(driver.allocs, 1);
    give(p);
    assert_null(mapping_of(p));
    gf_pinned_cache_set_complete(true);
}

static void *churn(void *closure)
{
    unsigned seed = (unsigned)(uintptr_t)closure;
    const unsigned char mark = (unsigned char)seed;
    void *held[6] = {0};
    size_t size[6] = {0};
    for (unsigned i = 0; i < 400; i++) {
        const unsigned at = (unsigned)rand_r(&seed) % 6;
        if (held[at]) {
            if (!all(held[at], size[at], mark))
                return closure;
            give(held[at]);
            held[at] = NULL;
        } else {
            size[at] = rand_r(&seed) % 3 ? (size_t)rand_r(&seed) % 100000 + 1 : MIB;
            held[at] = get(size[at]);
            memset(held[at], mark, size[at]);
        }
    }
    for (unsigned i = 0; i < 6; i++)
        if (held[i])
            give(held[i]);
    return NULL;
}

static void blocks_belong_to_one_thread(void **state)
{
    pthread_t thread[4];
    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < 4; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
    gf_pinned_cache_trim(&cuda, CONTEXT);
    for (unsigned i = 0; i < MAPPINGS; i++)
        assert_null(mappings[i].at);
}

static void short_memory_frees_the_mapping(void **state)
{
    struct gf_context context = {.id = CONTEXT};

    (void)state;
    gf_setup = (struct gf_transfer_setup){.cuda = &cuda};
    give(get(100));
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    gf_pinned_trim_if_short(&context);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    gf_kept_limit_short();
    gf_pinned_trim_if_short(&context);
    assert_int_equal(gf_pinned_cache_kept(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lone_block_makes_one_mapping, start),
        cmocka_unit_test_setup(beside_another_block_nothing_is_zeroed, start),
        cmocka_unit_test_setup(keepalives_are_unknown_to_the_program, start),
        cmocka_unit_test_setup(no_allocation_waits, start),
        cmocka_unit_test_setup(flags_are_as_without_the_library, start),
        cmocka_unit_test_setup(refused_beside_a_capture_once, start),
        cmocka_unit_test_setup(forgotten_chunks_are_not_fresh, start),
        cmocka_unit_test_setup(no_more_than_allowed_is_kept, start),
        cmocka_unit_test_setup(trim_frees_the_mapping, start),
        cmocka_unit_test_setup(short_memory_frees_the_mapping, start),
        cmocka_unit_test_setup(frees_return_the_kept_context, start),
        cmocka_unit_test_setup(a_failed_free_changes_nothing, start),
        cmocka_unit_test_setup(foreign_blocks_are_left_alone, start),
        cmocka_unit_test_setup(ended_contexts_are_forgotten, start),
        cmocka_unit_test_setup(only_live_blocks_are_inherited, start),
        cmocka_unit_test_setup(the_keepalive_of_an_inherited_mapping_is_freed_first, start),
        cmocka_unit_test_setup(a_mapping_that_was_seen_too_early_is_not_kept, start),
        cmocka_unit_test_setup(nothing_is_kept_beside_uncounted_blocks, start),
        cmocka_unit_test_setup(blocks_belong_to_one_thread, start),
    };
    return cmocka_run_group_tests_name("small", tests, NULL, NULL);
}
