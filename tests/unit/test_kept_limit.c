/* SPDX-License-Identifier: Apache-2.0 */
/* How much freed pinned memory is kept, and where. */
#include "block_driver.h"
#include "one_context.h"

#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "os/headroom.h"

#include <time.h>

#define NODE 7

static uint64_t headroom;
static int node_of_pages;       /* what the kernel answers */
static _Atomic time_t passed_s; /* helpers read it, too */

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
int __wrap_gf_range_node_read(const void *at, size_t bytes);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    (void)root, (void)node;
    *ret = (struct gf_headroom){.bytes = headroom};
}

int __wrap_gf_range_node_read(const void *at, size_t bytes)
{
    (void)at, (void)bytes;
    return node_of_pages;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    const int result = __real_clock_gettime(clock, ret);
    ret->tv_sec += passed_s;
    return result;
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    (void)device;
    *ret_cpus = (struct gf_cpus){0};
    gf_set_add(ret_cpus, 0);
    return NODE;
}

static CUresult count_devices(int *ret)
{
    *ret = 1;
    return CUDA_SUCCESS;
}

static CUresult register_host(void *at, size_t bytes, unsigned flags)
{
    (void)at, (void)bytes, (void)flags;
    return CUDA_SUCCESS;
}

static CUresult unregister_host(void *at)
{
    return mapping_of(at) ? unregister(at) : CUDA_SUCCESS;
}

static int begin(void **state)
{
    static struct gf_options options = {.pin_cache = GF_SIZE_AUTO, .stage_threads = 6};
    static struct gf_cuda functions = {ONE_CONTEXT};
    functions.cuMemHostAlloc = cuda.cuMemHostAlloc;
    functions.cuMemFreeHost = cuda.cuMemFreeHost;
    functions.cuPointerGetAttribute = cuda.cuPointerGetAttribute;
    functions.cuPointerGetAttributes = cuda.cuPointerGetAttributes;
    functions.cuMemHostRegister_v2 = register_host;
    functions.cuMemHostUnregister = unregister_host;
    functions.cuDeviceGetCount = count_devices;
    one.has = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
    gf_store_relaxed(&one.id, CONTEXT);
    gf_setup = (struct gf_transfer_setup){
        .options = &options, .cuda = &functions, .device_node = device_node};
    headroom = (uint64_t)64 << 30;
    node_of_pages = NODE;
    passed_s += 2; /* the headroom is due */
    gf_kept_mapping_trim(UINT64_MAX, 0);
    return start(state);
}

static char *get(size_t bytes)
{
    void *p = NULL;
    CUresult result = CUDA_ERROR_UNKNOWN;
    assert_true(gf_pinned_alloc(&p, bytes, 0, &result));
    assert_int_equal(result, CUDA_SUCCESS);
    return p;
}

static void give(void *p)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    assert_true(gf_pinned_free(p, &result));
    assert_int_equal(result, CUDA_SUCCESS);
}

/* Frees `count` buffers of a size that is kept. */
static void keep(unsigned count, size_t bytes)
{
    char *p[8];
    gf_recycled_note(bytes);
    for (unsigned i = 0; i < count; i++)
        p[i] = get(bytes);
    for (unsigned i = 0; i < count; i++)
        give(p[i]);
}

/* A lower limit holds from the next allocation on, also if the program frees nothing. */
static void a_lower_limit_holds(void **state)
{
    static const size_t sizes[] = {100, 48 * MIB};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(sizes); i++) {
        begin(state);
        keep(4, 8 * MIB);
        assert_int_equal(gf_kept_mapping_bytes(), 32 * MIB);
        headroom = (uint64_t)512 << 20; /* a thirty-second part is 16 MiB */
        char *p = get(sizes[i]);
        assert_int_equal(gf_kept_mapping_bytes(), 32 * MIB); /* read a moment ago */
        passed_s += 2;
        char *q = get(sizes[i]);
        assert_int_equal(gf_kept_mapping_bytes(), 16 * MIB);
        headroom = 0;
        passed_s += 2;
        give(p);
        assert_int_equal(gf_kept_mapping_bytes(), 0);
        give(q);
    }
}

/* Small blocks have a keepalive however much the buffers have, and both have no more than all. */
static void buffers_leave_keepalives(void **state)
{
    (void)state;
    keep(8, 8 * MIB);
    assert_int_equal(gf_kept_mapping_bytes(), 64 * MIB);
    char *p = get(100);
    assert_int_equal(driver.allocs, 2);
    give(p);
    assert_int_equal(gf_pinned_cache_kept(), GF_PINNED_CHUNK_SIZE);
    assert_int_equal(gf_kept_mapping_bytes(), 56 * MIB);
    give(get(100));
    assert_int_equal(driver.made, 1);
}

static void pages_of_another_node_are_not_kept(void **state)
{
    (void)state;
    node_of_pages = NODE + 1;
    keep(2, 4 * MIB);
    assert_int_equal(gf_kept_mapping_bytes(), 0);
    node_of_pages = -1; /* not known */
    keep(2, 4 * MIB);
    assert_int_equal(gf_kept_mapping_bytes(), 8 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lower_limit_holds, begin),
        cmocka_unit_test_setup(buffers_leave_keepalives, begin),
        cmocka_unit_test_setup(pages_of_another_node_are_not_kept, begin),
    };
    return cmocka_run_group_tests_name("kept_limit", tests, NULL, NULL);
}
