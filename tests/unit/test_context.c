/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "transfer/context.h"
#include "transfer/setup.h"

#include <pthread.h>
#include <unistd.h>

/* A driver with one device, whose primary context is handle 1, and others. */
static struct {
    CUcontext current, primary;
    unsigned long long id;
    int active, references;
} driver;

static CUresult get_current(CUcontext *ret)
{
    *ret = driver.current;
    return CUDA_SUCCESS;
}

static CUresult get_id(CUcontext context, unsigned long long *ret)
{
    (void)context;
    *ret = driver.id;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *ret)
{
    *ret = 0;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *ret = 0;
    return CUDA_SUCCESS;
}

static CUresult get_state(CUdevice device, unsigned *flags, int *active)
{
    (void)device, (void)flags;
    *active = driver.active;
    return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *ret, CUdevice device)
{
    (void)device;
    driver.references++;
    *ret = driver.primary;
    return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
    (void)device;
    driver.references--;
    return CUDA_SUCCESS;
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    (void)device;
    *ret_cpus = (struct gf_cpus){0};
    gf_set_add(ret_cpus, 0);
    return 7;
}

static struct gf_context *enter_as(CUcontext handle, unsigned long long id)
{
    driver.current = handle;
    driver.id = id;
    driver.active = 1;
    return gf_context_enter();
}

#define HANDLE(n) ((CUcontext)(uintptr_t)(n))

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
    /* the handle again, another context */
    struct gf_context *b = enter_as(HANDLE(16), 102);
    assert_ptr_not_equal(a, b);
    gf_context_leave(b);
    assert_null(enter_as(NULL, 0));
}

static void destroyed(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(32), 201);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    assert_null(enter_as(HANDLE(32), 201));
    gf_context_left(HANDLE(32), -1, CUDA_ERROR_INVALID_CONTEXT); /* it lives on */
    assert_ptr_equal(enter_as(HANDLE(32), 201), a);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    gf_context_left(HANDLE(32), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0); /* dropped */
}

static void dropped_by_the_last(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(48), 301);
    gf_context_leaving(HANDLE(48), -1); /* waits, but not for ever: the copy is the program's mistake */
    gf_context_left(HANDLE(48), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 301);
    gf_context_leave(a);
    assert_int_equal(a->id, 0);
}

static void primary(void **state)
{
    (void)state;
    driver.primary = HANDLE(64);
    struct gf_context *a = enter_as(HANDLE(64), 401);
    assert_true(a->primary);
    assert_int_equal(driver.references, 0);
    /* one of several references goes, while a copy is under way: nobody waits, nothing is lost */
    gf_context_leaving(NULL, 0);
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    gf_context_leave(a);
    assert_ptr_equal(enter_as(HANDLE(64), 401), a);
    gf_context_leave(a);
    /* two at once: the one comes back before the other's has ended it */
    gf_context_leaving(NULL, 0);
    gf_context_leaving(NULL, 0);
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    driver.active = 0;
    gf_context_left(NULL, 0, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
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

static void many(void **state)
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
    for (unsigned i = 0; i < 2 * GF_CONTEXTS; i++) {
        gf_context_leaving(HANDLE(1000 + i), -1);
        gf_context_left(HANDLE(1000 + i), -1, CUDA_SUCCESS);
    }
    struct gf_context *context = enter_as(HANDLE(2000), 2000);
    assert_non_null(context);
    gf_context_leave(context);
}

int main(void)
{
    static struct gf_options options;
    static const struct gf_cuda cuda = {
        .cuCtxGetCurrent = get_current,
        .cuCtxGetId = get_id,
        .cuCtxGetDevice = get_device,
        .cuDeviceGetAttribute = get_attribute,
        .cuDevicePrimaryCtxGetState = get_state,
        .cuDevicePrimaryCtxRetain = retain,
        .cuDevicePrimaryCtxRelease_v2 = release,
    };
    gf_setup = (struct gf_transfer_setup){
        .options = &options, .cuda = &cuda, .device_node = device_node};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_by_id), cmocka_unit_test(destroyed),
        cmocka_unit_test(dropped_by_the_last), cmocka_unit_test(primary),
        cmocka_unit_test(other_devices), cmocka_unit_test(many),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
