/* SPDX-License-Identifier: Apache-2.0 */
/* A process's first copy, which is the driver's: what it has done beside it, and when. */
#include "one_context.h"

#include "hook/transfer_api.h"
#include "transfer/setup.h"
#include "transfer/stats.h"
#include "transfer/transfer.h"
#include "transfer/tuning.h"

#include <string.h>

#define DEVICE ((CUdeviceptr)1 << 46)

static unsigned askings;
static char host[GF_MIB(16)];
#define LARGEST GF_TUNE_BEHIND /* as large as the device's memory; nobody looks at the host's behind its end */
static bool is_pinned; /* the program's memory */

static CUresult attributes(unsigned count, CUpointer_attribute *what, void **into, CUdeviceptr at)
{
    const bool device = at - DEVICE < LARGEST;
    for (unsigned i = 0; i < count; i++)
        switch (what[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)into[i] = device ? CU_MEMORYTYPE_DEVICE : is_pinned ? CU_MEMORYTYPE_HOST : 0;
            break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            *(unsigned *)into[i] = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr *)into[i] = DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t *)into[i] = LARGEST;
            break;
        default: /* all others: nought, as they come */
            break;
        }
    return answer();
}

/* What a first copy never calls, and must be there. */
static CUresult never(void)
{
    fail_msg("the first copy is the driver's");
    return CUDA_ERROR_UNKNOWN;
}
#define NEVER(name) .name = (__typeof__(name) *)(void (*)(void))never

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    *ret_cpus = (struct gf_cpus){0};
    return (int)one.id + device; /* whose helpers nobody has asked for */
}

static void count_asking(void)
{
    askings++;
}

static const struct gf_transfer_ops *ops;

static int new_context(void **state)
{
    (void)state;
    ops->context_leaving(HANDLE, -1);
    one.id++;
    ops->context_left(HANDLE, -1, CUDA_SUCCESS);
    askings = 0;
    return 0;
}

static uint64_t forwarded(enum gf_forward why)
{
    struct gf_transfer_stats stats;
    uint64_t sum = 0;
    gf_stats_read(&stats);
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        for (unsigned async = 0; async < 2; async++)
            sum += stats.forwarded[direction][async][why].calls;
    return sum;
}

static uint64_t warming(void)
{
    return forwarded(gf_forward_warming);
}

static struct gf_copy_call call_of(enum gf_copy_way way, size_t bytes)
{
    return (struct gf_copy_call){way, way == gf_copy_batched, DEVICE, (uintptr_t)host, bytes, CU_STREAM_LEGACY};
}

/* Making helpers and memory for a ring would disturb the driver's copy. */
static void own_thread_begins_behind_the_driver(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host));
    const uint64_t before = warming();
    CUresult word;
    (void)state;
    assert_false(ops->copy(&call, &word));
    assert_int_equal(warming(), before + 1);
    assert_int_equal(askings, 0);
    ops->copy_declined(&call, word, 1000);
    assert_int_equal(askings, 1);
    assert_false(ops->copy(&call, &word)); /* it is at it */
    ops->copy_declined(&call, word, 1000);
    assert_int_equal(askings, 1);
}

/* The first may never come back from the driver, or only when the others have long been. */
static void another_copy_tells_it_too(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host)), other = call_of(gf_copy_h2d, GF_MIB(4));
    CUresult word;
    (void)state;
    assert_false(ops->copy(&call, &word));
    assert_false(ops->copy(&other, &word));
    assert_int_equal(askings, 0);
    ops->copy_declined(&other, word, 1000);
    assert_int_equal(askings, 1);
}

/* The next one is as large, perhaps, and shall find it ready. */
static void a_very_large_copy_does_not_put_it_off(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, LARGEST);
    CUresult word;
    (void)state;
    assert_false(ops->copy(&call, &word));
    assert_true(askings > 0);
    const unsigned asked_before = askings;
    ops->copy_declined(&call, word, 1000);
    assert_int_equal(askings, asked_before);
}

/* While the small one is the driver's yet. */
static void a_very_large_copy_begins_what_was_put_off(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host)), large = call_of(gf_copy_h2d, LARGEST);
    CUresult word;
    (void)state;
    assert_false(ops->copy(&call, &word));
    assert_int_equal(askings, 0);
    assert_false(ops->copy(&large, &word));
    assert_int_equal(askings, 1);
    ops->copy_declined(&call, word, 1000);
    assert_int_equal(askings, 1);
}

/* Of a batch that the driver gets as it came nobody tells afterwards. */
static void a_batch_does_not_put_it_off(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_batched, sizeof(host));
    (void)state;
    assert_false(ops->copy_fits(&call));
    assert_int_equal(askings, 1);
}

static void offered(enum gf_copy_way way, size_t bytes)
{
    const struct gf_copy_call call = call_of(way, bytes);
    CUresult word;
    one.asked = 0;
    assert_false(ops->copy(&call, &word));
    ops->copy_declined(&call, word, 1000);
}

/* The first three come before anybody prepared for copies, in this order. What could be asked would take a tenth of one. */
static void the_first_small_ones_are_asked_nothing_about(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GF_TUNE_EAGER_PATIENCE; i++) {
        offered(i % 2 ? gf_copy_h2d : gf_copy_d2h, GF_TUNE_EAGER - 1);
        assert_int_equal(one.asked, 0);
        assert_int_equal(forwarded(gf_forward_early), i + 1);
    }
    for (unsigned i = 1; i < GF_TUNE_EAGER_PATIENCE; i++) {
        offered(gf_copy_any, GF_TUNE_EAGER - 1); /* which way has to be asked */
        assert_int_not_equal(one.asked, 0);
    }
    assert_int_equal(forwarded(gf_forward_early), GF_TUNE_EAGER_PATIENCE);
    assert_int_equal(warming(), GF_TUNE_EAGER_PATIENCE - 1);
}

/* Who copies much of it and little that is pageable needs no helpers. */
static void pinned_memory_takes_no_patience(void **state)
{
    const uint64_t before = warming();
    (void)state;
    is_pinned = true;
    for (unsigned i = 0; i < 2 * GF_TUNE_EAGER_PATIENCE; i++)
        offered(gf_copy_h2d, GF_TUNE_EAGER - 1);
    offered(gf_copy_h2d, sizeof(host));
    is_pinned = false;
    assert_int_equal(warming(), before);
    assert_int_equal(askings, 0);
}

static void behind_some_more_it_is_prepared(void **state)
{
    (void)state;
    offered(gf_copy_h2d, GF_TUNE_EAGER - 1);
    assert_int_equal(askings, 0);
    offered(gf_copy_h2d, GF_TUNE_EAGER - 1);
    assert_int_equal(askings, 1);
}

int main(void)
{
    static const struct gf_options options = {.stage = gf_stage_auto, .stage_min = GF_SIZE_AUTO,
                                              .stage_ring = GF_SIZE_AUTO, .stage_threads = 4,
                                              .pin = gf_pin_off, .mode = gf_mode_on};
    static const struct gf_cuda cuda = {ONE_CONTEXT,
                                        .cuPointerGetAttributes = attributes,
                                        NEVER(cuEventCreate),
                                        NEVER(cuEventRecord),
                                        NEVER(cuEventQuery),
                                        NEVER(cuEventSynchronize),
                                        NEVER(cuStreamSynchronize),
                                        NEVER(cuMemHostRegister_v2),
                                        NEVER(cuMemHostUnregister),
                                        NEVER(cuMemcpyHtoD_v2),
                                        NEVER(cuMemcpyHtoD_v2_ptds),
                                        NEVER(cuMemcpyHtoDAsync_v2),
                                        NEVER(cuMemcpyDtoH_v2),
                                        NEVER(cuMemcpyDtoH_v2_ptds),
                                        NEVER(cuMemcpyDtoHAsync_v2)};
    const struct gf_transfer_setup setup = {
        .options = &options, .cuda = &cuda, .device_node = device_node, .ask = count_asking};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_small_ones_are_asked_nothing_about, new_context),
        cmocka_unit_test_setup(pinned_memory_takes_no_patience, new_context),
        cmocka_unit_test_setup(behind_some_more_it_is_prepared, new_context),
        cmocka_unit_test_setup(own_thread_begins_behind_the_driver, new_context),
        cmocka_unit_test_setup(another_copy_tells_it_too, new_context),
        cmocka_unit_test_setup(a_very_large_copy_does_not_put_it_off, new_context),
        cmocka_unit_test_setup(a_very_large_copy_begins_what_was_put_off, new_context),
        cmocka_unit_test_setup(a_batch_does_not_put_it_off, new_context),
    };
    one.is_primary = true;
    ops = gf_transfer_start(&setup);
    return cmocka_run_group_tests_name("first", tests, NULL, NULL);
}
