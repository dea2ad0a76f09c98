/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "transfer/classify.h"
#include "transfer/setup.h"

#include <string.h>

/* What the driver knows: ranges by address; everything else is pageable. */
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
static unsigned questions;
static CUresult answer_instead;

static const struct known *at(CUdeviceptr address)
{
    for (unsigned i = 0; i < 8; i++)
        if (address - known[i].start < known[i].size)
            return &known[i];
    return NULL;
}

/* Succeeds for what the driver does not know. */
static CUresult get_several(unsigned count, CUpointer_attribute *what, void **ret,
                            CUdeviceptr address)
{
    static const struct known nothing;
    const struct known *k = at(address) ? at(address) : &nothing;
    questions++;
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
    questions = 0;
}

/* Why a copy to device 2 is not staged; -1: it may be. */
static int why(CUdeviceptr dst, CUdeviceptr src, size_t bytes, enum gf_copy_way way,
               enum gf_direction *ret_direction)
{
    const struct gf_copy_call call = {way, true, dst, src, bytes, NULL};
    enum gf_forward ret;
    if (gf_classify_host(&call, false, ret_direction, &ret) &&
        gf_classify_ends(&call, *ret_direction, 2, &ret))
        return -1;
    return (int)ret;
}

static int why_h2d(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    enum gf_direction direction;
    return why(dst, src, bytes, gf_copy_h2d, &direction);
}

static void pageable_to_device(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), -1);
    assert_int_equal(why_h2d(DEVICE + 96, HEAP, 4000), -1);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_d2h, &direction), -1);
    assert_int_equal(direction, gf_direction_d2h);
}

static void addresses_decide(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_any, &direction), -1);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_any, &direction), -1);
    assert_int_equal(direction, gf_direction_d2h);
    assert_int_equal(why(HEAP, HEAP + 8192, 4096, gf_copy_any, &direction), gf_forward_ends);
    assert_int_equal(why(DEVICE, DEVICE, 64, gf_copy_any, &direction), gf_forward_ends);
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_any, &direction), gf_forward_pinned);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_any, &direction), gf_forward_pinned);
    assert_int_equal(direction, gf_direction_d2h);
}

/* Only its copies to the device are for staging, and each is counted in its own direction. */
static void members_of_a_batch(void **state)
{
    (void)state;
    enum gf_direction direction;
    reset();
    assert_int_equal(why(DEVICE, HEAP, 4096, gf_copy_batched, &direction), -1);
    assert_int_equal(direction, gf_direction_h2d);
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_batched, &direction), gf_forward_batch);
    assert_int_equal(direction, gf_direction_d2h);
    assert_int_equal(why(HEAP, HEAP + 8192, 4096, gf_copy_batched, &direction), gf_forward_ends);
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why(HEAP, DEVICE, 4096, gf_copy_batched, &direction), gf_forward_pinned);
    assert_int_equal(direction, gf_direction_d2h);
}

static void pinned_costs_one_question(void **state)
{
    (void)state;
    reset();
    known[1] = (struct known){HEAP, 4096, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_pinned);
    assert_int_equal(questions, 1);
}

/* Both ends count: a registration that begins, or ends, inside the source. */
static void pinned_at_one_end(void **state)
{
    (void)state;
    reset();
    known[1] = (struct known){HEAP + 4095, 1, CU_MEMORYTYPE_HOST, 0, 0, 2, 3, 0, 0};
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_pinned);
    assert_int_equal(why_h2d(DEVICE, HEAP, 4095), -1);
    known[1].start = HEAP;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_pinned);
}

static void any_other_answer_is_the_drivers(void **state)
{
    (void)state;
    reset();
    answer_instead = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_failed);
    answer_instead = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_failed);
    answer_instead = CUDA_ERROR_INVALID_CONTEXT;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_failed);
}

/* Mappings laid side by side are one range; a hole, or the end, is not. */
static void adjacent_mappings(void **state)
{
    (void)state;
    reset();
    known[1] = plain(DEVICE + 4096, 8192);
    known[2] = plain(DEVICE + 12288, 4096);
    assert_int_equal(why_h2d(DEVICE + 100, HEAP, 16284), -1);
    assert_int_equal(why_h2d(DEVICE + 100, HEAP, 16285), gf_forward_range);
    known[1].start += 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_forward_range);
    known[1].start -= 1;
    known[2].device = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_forward_device_memory);
    known[2].device = 2;
    known[2].access = 1; /* read only */
    assert_int_equal(why_h2d(DEVICE, HEAP, 16384), gf_forward_device_memory);
}

/* To the driver these are two, and a copy from one into the next fails as a whole. */
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
        assert_int_equal(why_h2d(DEVICE, HEAP, 4096), -1);
        assert_int_equal(why_h2d(DEVICE + 4096, HEAP, 4096), -1);
        assert_int_equal(why_h2d(DEVICE, HEAP, 4097), gf_forward_range);
        known[0].allocated = known[0].pool = 0;
        assert_int_equal(why_h2d(DEVICE, HEAP, 4097), gf_forward_range);
    }
}

/* A copy that is only counted: of each 16 questions one is asked, and what it says is told from then on. */
static void what_is_counted_is_recalled(void **state)
{
    (void)state;
    const struct gf_copy_call call = {gf_copy_d2h, false, HEAP, DEVICE, 4096, NULL};
    enum gf_direction direction;
    enum gf_forward ret;

    reset();
    for (unsigned i = 0; i < 160; i++)
        assert_true(gf_classify_host(&call, true, &direction, &ret));
    assert_int_equal(direction, gf_direction_d2h);
    assert_in_range(questions, 10, 11);
    known[1] = (struct known){.start = HEAP, .size = 4096, .type = CU_MEMORYTYPE_HOST};
    for (unsigned i = 0; i < 16; i++)
        gf_classify_host(&call, true, &direction, &ret);
    assert_false(gf_classify_host(&call, true, &direction, &ret));
    assert_int_equal(ret, gf_forward_pinned);
    known[1].size = 0;
    assert_true(gf_classify_host(&call, false, &direction, &ret)); /* who may do something by it asks each time */
}

/* Memory beside it, or elsewhere on the same slot, is asked for. */
static void nothing_else_is_recalled(void **state)
{
    (void)state;
    enum gf_direction direction;
    enum gf_forward ret;

    reset();
    known[1] = (struct known){.start = UINT64_C(2) << 40, .size = UINT64_C(4) << 30, .type = CU_MEMORYTYPE_HOST};
    for (uint64_t i = 0; i < 4096; i++) {
        const CUdeviceptr own = (UINT64_C(1) << 40) + (i << 16), pinned = known[1].start + (i << 16);
        assert_true(gf_classify_host(&(struct gf_copy_call){gf_copy_h2d, false, DEVICE, own, 4096, NULL}, true,
                                     &direction, &ret));
        assert_false(gf_classify_host(&(struct gf_copy_call){gf_copy_h2d, false, DEVICE, pinned, 4096, NULL}, true,
                                      &direction, &ret));
    }
}

static void odd_device_memory(void **state)
{
    (void)state;
    reset();
    known[0].managed = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_device_memory);
    known[0] = plain(DEVICE, 4096);
    known[0].synchronous = 1;
    assert_int_equal(why_h2d(DEVICE, HEAP, 4096), gf_forward_device_memory);
    assert_int_equal(why_h2d(HEAP + 65536, HEAP, 4096), gf_forward_range);
    assert_int_equal(why_h2d(UINT64_MAX - 100, HEAP, 4096), gf_forward_ends);
}

int main(void)
{
    static const struct gf_cuda cuda = {.cuPointerGetAttributes = get_several};
    gf_setup.cuda = &cuda;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pageable_to_device),
        cmocka_unit_test(addresses_decide), cmocka_unit_test(members_of_a_batch),
        cmocka_unit_test(pinned_costs_one_question),
        cmocka_unit_test(pinned_at_one_end),
        cmocka_unit_test(any_other_answer_is_the_drivers),
        cmocka_unit_test(adjacent_mappings),
        cmocka_unit_test(adjacent_allocations),
        cmocka_unit_test(what_is_counted_is_recalled),
        cmocka_unit_test(nothing_else_is_recalled),
        cmocka_unit_test(odd_device_memory),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
