/* SPDX-License-Identifier: Apache-2.0 */
/* Large pinned buffers that are registered while helpers touch their last pages. */
#include "pinned_buffer_kit.h"

#include "base/atomic.h"
#include "engine/transfer/setup/tuning.h"
#include "os/headroom.h"

#include <errno.h>
#include <unistd.h>

#define BYTES (128 * MIB)
#define PAGES (BYTES / 4096)

/* Helpers' calls wait until the driver is called, because the caller may not touch these pages. */
static struct {
    bool holds;
    _Atomic bool registering;
    _Atomic unsigned waiting, unmapped;
    int error; /* of the calls that waited */
    uint64_t headroom;
    size_t present; /* pages at the time of the registration */
    CUresult result;
} held;

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
void __real_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    __real_gf_headroom_read(root, node, ret);
    if (held.headroom)
        ret->bytes = held.headroom;
}

static __thread bool is_caller;
static _Atomic uint64_t touched;

/* The calls of helpers beyond the first pages wait. */
static bool must_wait(size_t size)
{
    return gf_add_relaxed(&touched, size) >= BYTES / 16 * GF_TUNE_PIN_EARLY_PART && !is_caller;
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    if (advice != 23 /* MADV_POPULATE_WRITE */ || !held.holds || !must_wait(size))
        return __real_madvise(at, size, advice);
    gf_add_relaxed(&held.waiting, 1);
    for (unsigned ms = 0; ms < 5000 && !gf_load_acquire(&held.registering); ms++)
        usleep(1000);
    usleep(20000); /* if the caller does not wait, it has unmapped the range by now */
    if (!is_mapped(at))
        gf_add_relaxed(&held.unmapped, 1);
    errno = held.error;
    return held.error ? -1 : __real_madvise(at, size, advice);
}

static size_t count_present(const void *at)
{
    static unsigned char there[PAGES];
    size_t found = 0;
    assert_int_equal(mincore((void *)(uintptr_t)at, BYTES, there), 0);
    for (size_t i = 0; i < PAGES; i++)
        found += there[i] & 1;
    return found;
}

static CUresult early_register(void *at, size_t bytes, unsigned flags)
{
    (void)flags;
    assert_int_equal(bytes, BYTES);
    driver.at = at;
    for (unsigned ms = 0; held.holds && ms < 5000 && !gf_load_relaxed(&held.waiting); ms++)
        usleep(1000);
    held.present = count_present(at);
    gf_store_release(&held.registering, true);
    return held.result;
}

static const struct gf_cuda early_cuda = {.cuMemHostRegister_v2 = early_register,
                                          .cuMemHostUnregister = host_unregister};

static void *get_early(bool early, CUresult *ret, struct gf_fault *ret_fault)
{
    const struct gf_pinned_buffer_request wish = {
        .cuda = &early_cuda, .pool = pool(), .early = early, .policy = &first_touch, .context = 5};
    void *p = NULL;
    for (unsigned ms = 0; ms < 5000 && gf_pool_helpers(wish.pool) < 5; ms++)
        usleep(1000);
    is_caller = true;
    gf_store_relaxed(&touched, 0);
    gf_store_relaxed(&held.registering, false);
    *ret = CUDA_SUCCESS;
    return gf_pinned_buffer_alloc(&wish, &p, BYTES, 0, ret, ret_fault) ? p : NULL;
}

static int begin(void **state)
{
    memset(&held, 0, sizeof(held));
    return start(state);
}

static void free_early(void *p)
{
    CUresult result;
    assert_non_null(p);
    assert_true(give(p, &result));
    assert_false(is_mapped(p));
}

static void registration_begins_before_the_last_pages(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    held.holds = true;
    char *p = get_early(true, &result, &fault);
    assert_true(held.present < PAGES);
    for (size_t i = 0; i < BYTES; i += 4096)
        assert_int_equal(p[i], 0);
    free_early(p);
}

static void registration_follows_all_pages_if_late(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    free_early(get_early(false, &result, &fault));
    assert_int_equal(held.present, PAGES);
}

/* The driver would populate pages without a look at the headroom. */
static void registration_follows_all_pages_if_memory_is_short(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    held.headroom = 70 * MIB;
    free_early(get_early(true, &result, &fault));
    assert_int_equal(held.present, PAGES);
}

static void refused_registration_waits_for_helpers(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    held.holds = true;
    held.result = CUDA_ERROR_NOT_SUPPORTED;
    assert_null(get_early(true, &result, &fault));
    assert_true(gf_load_relaxed(&held.waiting) > 0);
    assert_int_equal(gf_load_relaxed(&held.unmapped), 0);
    assert_string_equal(fault.call, "cuMemHostRegister");
    assert_int_equal(result, CUDA_ERROR_NOT_SUPPORTED);
    assert_false(is_mapped(driver.at));
}

/* Too little memory is no reason to leave later allocations to the driver. */
static void refused_registration_without_memory_is_no_fault(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    held.holds = true;
    held.error = ENOMEM;
    held.result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_null(get_early(true, &result, &fault));
    assert_true(gf_load_relaxed(&held.waiting) > 0);
    assert_null(fault.call);
    assert_int_equal(fault.error, ENOMEM);
    assert_int_equal(result, CUDA_SUCCESS);
    assert_false(is_mapped(driver.at));
}

/* The driver has populated the pages that helpers could not. */
static void registered_buffer_is_served_despite_an_error(void **state)
{
    CUresult result;
    struct gf_fault fault;
    (void)state;
    held.holds = true;
    held.error = ENOMEM;
    void *const p = get_early(true, &result, &fault);
    assert_true(gf_load_relaxed(&held.waiting) > 0);
    assert_null(fault.call);
    free_early(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(registration_begins_before_the_last_pages, begin),
        cmocka_unit_test_setup(registration_follows_all_pages_if_late, begin),
        cmocka_unit_test_setup(registration_follows_all_pages_if_memory_is_short, begin),
        cmocka_unit_test_setup(refused_registration_waits_for_helpers, begin),
        cmocka_unit_test_setup(refused_registration_without_memory_is_no_fault, begin),
        cmocka_unit_test_setup(registered_buffer_is_served_despite_an_error, begin),
    };
    return cmocka_run_group_tests_name("early", tests, NULL, NULL);
}
