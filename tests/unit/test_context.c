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
    bool green;
    CUdevice device;
    CUdevice_attribute has; /* the one that is not 0 */
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
    *ret = driver.device;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    *ret = device == driver.device && attribute == driver.has;
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
    __atomic_add_fetch(&driver.references, 1, __ATOMIC_RELAXED);
    *ret = driver.primary;
    return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
    (void)device;
    __atomic_sub_fetch(&driver.references, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
    if (stream != CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_HANDLE;
    *ret = driver.green ? driver.primary : driver.current;
    *ret_green = driver.green ? (CUgreenCtx)driver.current : NULL;
    return CUDA_SUCCESS;
}

static CUresult stream_green(CUstream stream, CUgreenCtx *ret)
{
    CUcontext unused;
    return stream_context(stream, &unused, ret);
}

static CUresult stream_context_fails(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
    (void)stream, (void)ret, (void)ret_green;
    return CUDA_ERROR_INVALID_CONTEXT;
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    *ret_cpus = (struct gf_cpus){0};
    gf_set_add(ret_cpus, 0);
    return 7 + device;
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
    gf_context_left(HANDLE(32), -1, CUDA_SUCCESS); /* cuCtxDetach: somebody else is attached */
    assert_ptr_equal(enter_as(HANDLE(32), 201), a);
    gf_context_leave(a);
    gf_context_leaving(HANDLE(32), -1);
    driver.current = NULL;
    gf_context_left(HANDLE(32), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0); /* dropped */
}

static void dropped_by_the_last(void **state)
{
    (void)state;
    struct gf_context *a = enter_as(HANDLE(48), 301);
    driver.current = NULL;
    gf_context_leaving(HANDLE(48), -1); /* waits, but not for ever: the copy is the program's mistake */
    gf_context_left(HANDLE(48), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 301);
    gf_context_leave(a);
    assert_int_equal(a->id, 0);
}

/* Between the driver's end of it and our word of that, another thread's was made. */
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

/* A copy that is under way when its context is about to go has come to its end before that goes. */
static void *leave_late(void *context)
{
    usleep(50000);
    __atomic_store_n(&driver.references, 77, __ATOMIC_SEQ_CST);
    gf_context_leave(context);
    return NULL;
}

static void running_copies_end_first(void **state)
{
    pthread_t thread;
    (void)state;
    struct gf_context *a = enter_as(HANDLE(60), 361);
    assert_int_equal(pthread_create(&thread, NULL, leave_late, a), 0);
    gf_context_leaving(HANDLE(60), -1);
    assert_int_equal(__atomic_load_n(&driver.references, __ATOMIC_SEQ_CST), 77);
    driver.references = 0;
    driver.current = NULL;
    gf_context_left(HANDLE(60), -1, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
    pthread_join(thread, NULL);
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

/* Of a context that only a green one kept alive: whichever device it was. */
static void any_device(void **state)
{
    (void)state;
    driver.primary = HANDLE(96);
    struct gf_context *a = enter_as(HANDLE(96), 601), *b = enter_as(HANDLE(97), 602);
    gf_context_leave(a);
    gf_context_leave(b);
    gf_context_leaving(NULL, GF_ANY_DEVICE);
    assert_null(enter_as(HANDLE(96), 601));
    gf_context_left(NULL, GF_ANY_DEVICE, CUDA_SUCCESS); /* others hold it */
    assert_ptr_equal(enter_as(HANDLE(96), 601), a);
    gf_context_leave(a);
    gf_context_leaving(NULL, GF_ANY_DEVICE);
    driver.active = 0;
    gf_context_left(NULL, GF_ANY_DEVICE, CUDA_SUCCESS);
    assert_int_equal(a->id, 0);
    assert_int_equal(b->id, 602);
}

/* Grace and Tegra; that the GPU may fault pages in (HMM) is no reason. And the node is the device's. */
static void what_is_shared(void **state)
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

/* None is made for them, by either way to ask; in doubt it is one. */
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
    driver.current = NULL;
    for (unsigned i = 0; i < 2 * GF_CONTEXTS; i++) {
        gf_context_leaving(HANDLE(1000 + i), -1);
        gf_context_left(HANDLE(1000 + i), -1, CUDA_SUCCESS);
    }
    struct gf_context *context = enter_as(HANDLE(2000), 2000);
    assert_non_null(context);
    gf_context_leave(context);
}

/* Threads come and go in a context that ends and is made anew all the time. */
static struct {
    unsigned long long id; /* atomic: of the one that lives */
    bool over;             /* atomic */
    unsigned entered;      /* atomic */
} turn;

static CUresult living_id(CUcontext handle, unsigned long long *ret)
{
    (void)handle;
    *ret = __atomic_load_n(&turn.id, __ATOMIC_ACQUIRE);
    return CUDA_SUCCESS;
}

static void *come_and_go(void *unused)
{
    while (!__atomic_load_n(&turn.over, __ATOMIC_ACQUIRE)) {
        struct gf_context *context = gf_context_enter();
        if (!context)
            continue;
        assert_int_not_equal(context->id, 0);
        assert_non_null(context->pool);
        __atomic_add_fetch(&turn.entered, 1, __ATOMIC_RELAXED);
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
        const unsigned seen = __atomic_load_n(&turn.entered, __ATOMIC_RELAXED);
        for (unsigned k = 0; k < 5000 && __atomic_load_n(&turn.entered, __ATOMIC_RELAXED) == seen; k++)
            usleep(100);
        gf_context_leaving(HANDLE(3000), -1);
        __atomic_store_n(&turn.id, 3000 + i, __ATOMIC_RELEASE); /* the handle again, another context */
        gf_context_left(HANDLE(3000), -1, CUDA_SUCCESS);
    }
    __atomic_store_n(&turn.over, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < GF_ARRAY_LEN(thread); i++)
        pthread_join(thread[i], NULL);
    assert_true(__atomic_load_n(&turn.entered, __ATOMIC_RELAXED) >= 100);
    gf_setup.cuda = before;
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
        cmocka_unit_test(dropped_by_the_last), cmocka_unit_test(handle_used_again),
        cmocka_unit_test(running_copies_end_first),
        cmocka_unit_test(primary),
        cmocka_unit_test(other_devices), cmocka_unit_test(any_device),
        cmocka_unit_test(what_is_shared),
        cmocka_unit_test(green), cmocka_unit_test(many),
        cmocka_unit_test(threads_and_ends),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
