/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "engine/transfer/copy/classify.h"
#include "engine/transfer/setup.h"

#include <string.h>

/* Memory that the driver knows, by address; all other memory is pageable. */
struct known {
    CUdeviceptr start;
    size_t size;
    CUmemorytype type;
    unsigned managed, synchronous;
    int device, access;
    unsigned allocated; /* by cuMemAlloc */
    uintptr_t pool;
};

static struct known known[8];
static unsigned driver_calls;
static CUresult answer_instead;

static const struct known *at(CUdeviceptr address)
{
    for (unsigned i = 0; i < 8; i++)
        if (address - known[i].start < known[i].size)
            return &known[i];
    return NULL;
}

/* Like the driver's function, it also succeeds for unknown memory. */
static CUresult get_several(unsigned count, CUpointer_attribute *what, void **ret,
                            CUdeviceptr address)
{
    static const struct known nothing;
    const struct known *k = at(address) ? at(address) : &nothing;
    driver_calls++;
    if (answer_instead)
        return answer_instead;
    for (unsigned i = 0; i < count; i++)
        switch (what[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(CUmemorytype *)ret[i] = k->type;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)ret[i] = k->managed;
            break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            *(unsigned *)ret[i] = k->synchronous;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)ret[i] = k->device;
            break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            *(int *)ret[i] = k->access;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr *)ret[i] = k->start;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t *)ret[i] = k->size;
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *(unsigned *)ret[i] = k->allocated;
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            *(CUmemoryPool *)ret[i] = (CUmemoryPool)k->pool;
            break;
        default:
            fail_msg("attribute %d", what[i]);
        }
    return CUDA_SUCCESS;
}

#define HEAP UINT64_C(0x1000000)
#define DEVICE UINT64_C(0x700000000000)

static struct known plain(CUdeviceptr start, size_t size)
{
    return (struct known){start, size, CU_MEMORYTYPE_DEVICE, 0, 0, 2, 3, 0, 0};
}

static void reset(void)
{
    memset(known, 0, sizeof(known));
    known[0] = plain(DEVICE, 4096);
    answer_instead = 0;
    driver_calls = 0;
}

/* Returns why a copy to device 2 is not staged. */
static enum gf_bypass why(CUdeviceptr dst, CUdeviceptr src, size_t bytes, enum gf_copy_way way,
                          enum gf_direction *ret_direction)
{
    const struct gf_copy_call call = {way, true, dst, src, bytes, NULL};
    const enum gf_bypass reason = gf_classify_host(&call, false, ret_direction);
    return reason != gf_bypass_none ? reason : gf_classify_ends(&call, *ret_direction, 2);
}

static enum gf_bypass why_h2d(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    enum gf_direction direction;
    return why(dst, src, bytes, gf_copy_h2d, &direction);
}

static void pageable_to_device(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_none);
    assert_int_equal(why_h2d(DEVICE + 96, HEAP, 4000), gf_bypass_none);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_d2h, &direction), gf_bypass_none);
    assert_int_equal(direction, gf_direction_d2h);
}

static void addresses_decide(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_any, &direction), gf_bypass_none);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_any, &direction), gf_bypass_none);
    assert_int_equal(direction, gf_direction_d2h);
    assert_int_equal(why(HEAP, HEAP + 8192, 4096, gf_copy_any, &direction), gf_bypass_ends);
    assert_int_equal(why(DEVICE, DEVICE, 64, gf_copy_any, &direction), gf_bypass_ends);
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_any, &direction), gf_bypass_pinned);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_any, &direction), gf_bypass_pinned);
    assert_int_equal(direction, gf_direction_d2h);
}

/* Only copies to the device are staged; each is counted in its direction. */
static void copies_of_a_batch(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_batched, &direction), gf_bypass_none);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_batched, &direction), gf_bypass_batch);
    assert_int_equal(direction, gf_direction_d2h);
    assert_int_equal(why(HEAP, HEAP + 8192, 4096, gf_copy_batched, &direction), gf_bypass_ends);
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_batched, &direction), gf_bypass_pinned);
    assert_int_equal(direction, gf_direction_d2h);
}

static void pinned_memory_costs_one_driver_call(void **state)
{
    (void)state;
    reset();
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_pinned);
    assert_int_equal(driver_calls, 1);
}

/* A registered range may begin or end inside the source. */
static void pinned_at_one_end(void **state)
{
    (void)state;
    reset();
    known[1] = (struct known){HEAP + 4095, 1, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_pinned);
    assert_int_equal(why_h2d(DEVICE, HEAP, 4095), gf_bypass_none);
    known[1].start = HEAP;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_pinned);
}

static void errors_are_left_to_the_driver(void **state)
{
    (void)state;
    reset();
    answer_instead = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_failed);
    answer_instead = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_failed);
    answer_instead = CUDA_ERROR_INVALID_CONTEXT;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_failed);
}

/* Adjacent mappings count as one range, which ends at a hole. */
static void adjacent_mappings(void **state)
{
    (void)state;
    reset();
    known[1] = plain(DEVICE + 4096, 8192);
    known[2] = plain(DEVICE + 12288, 4096);
    assert_int_equal(why_h2d(DEVICE + 100, HEAP, 16284), gf_bypass_none);
    assert_int_equal(why_h2d(DEVICE + 100, HEAP, 16285), gf_bypass_range);
    known[1].start += 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_bypass_range);
    known[1].start -= 1;
    known[2].device = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_bypass_device_memory);
    known[2].device = 2;
    known[2].access = 1; /* read only */
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_bypass_device_memory);
}

/* The driver treats adjacent allocations as two ranges, and refuses a copy across both. */
static void adjacent_allocations(void **state)
{
    (void)state;
    for (unsigned pooled = 0; pooled < 2; pooled++) {
        reset();
        known[1] = plain(DEVICE + 4096, 4096);
        for (unsigned i = 0; i < 2; i++) {
            known[i].allocated = !pooled;
            known[i].pool = pooled;
        }
        assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_none);
        assert_int_equal(why_h2d(DEVICE + 4096, HEAP, 4096), gf_bypass_none);
        assert_int_equal(why_h2d(DEVICE, HEAP, 4097), gf_bypass_range);
        known[0].allocated = known[0].pool = 0;
        assert_int_equal(why_h2d(DEVICE, HEAP, 4097), gf_bypass_range);
    }
}

/* If copies are only counted, one lookup in 16 calls the driver, and the others use the cache. */
static void counting_uses_the_cache(void **state)
{
    (void)state;
    const struct gf_copy_call call = {gf_copy_d2h, false, HEAP, DEVICE, 4096, NULL};
    enum gf_direction direction;

    reset();
    for (unsigned i = 0; i < 160; i++)
        assert_int_equal(gf_classify_host(&call, true, &direction), gf_bypass_none);
    assert_int_equal(direction, gf_direction_d2h);
    assert_in_range(driver_calls, 10, 11);
    known[1] = (struct known){.start = HEAP, .size = 4096, .type = CU_MEMORYTYPE_HOST};
    for (unsigned i = 0; i < 16; i++)
        gf_classify_host(&call, true, &direction);
    assert_int_equal(gf_classify_host(&call, true, &direction), gf_bypass_pinned);
    known[1].size = 0;
    /* A copy that may be staged asks the driver each time. */
    assert_int_equal(gf_classify_host(&call, false, &direction), gf_bypass_none);
}

/* Memory that is not in the cache, or collides there, costs a driver call. */
static void the_cache_never_confuses_memory(void **state)
{
    (void)state;
    enum gf_direction direction;

    reset();
    known[1] = (struct known){
        .start = UINT64_C(2) << 40, .size = UINT64_C(4) << 30, .type = CU_MEMORYTYPE_HOST};
    for (uint64_t i = 0; i < 4096; i++) {
        const CUdeviceptr own = (UINT64_C(1) << 40) + (i << 16),
                          pinned = known[1].start + (i << 16);
        assert_int_equal(
            gf_classify_host(&(struct gf_copy_call){gf_copy_h2d, false, DEVICE, own, 4096, NULL},
                             true, &direction),
            gf_bypass_none);
        assert_int_equal(
            gf_classify_host(&(struct gf_copy_call){gf_copy_h2d, false, DEVICE, pinned, 4096, NULL},
                             true, &direction),
            gf_bypass_pinned);
    }
}

static void odd_device_memory(void **state)
{
    (void)state;
    reset();
    known[0].managed = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_device_memory);
    known[0] = plain(DEVICE, 4096);
    known[0].synchronous = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_bypass_device_memory);
    assert_int_equal(why_h2d(HEAP + 65536, HEAP, 4096), gf_bypass_range);
    assert_int_equal(why_h2d(UINT64_MAX - 100, HEAP, 4096), gf_bypass_ends);
}

int main(void)
{
    static const struct gf_cuda cuda = {.cuPointerGetAttributes = get_several};
    gf_setup.cuda = &cuda;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pageable_to_device),
        cmocka_unit_test(addresses_decide),
        cmocka_unit_test(copies_of_a_batch),
        cmocka_unit_test(pinned_memory_costs_one_driver_call),
        cmocka_unit_test(pinned_at_one_end),
        cmocka_unit_test(errors_are_left_to_the_driver),
        cmocka_unit_test(adjacent_mappings),
        cmocka_unit_test(adjacent_allocations),
        cmocka_unit_test(counting_uses_the_cache),
        cmocka_unit_test(the_cache_never_confuses_memory),
        cmocka_unit_test(odd_device_memory),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
