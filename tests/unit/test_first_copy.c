/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's first copies are left to the driver. Tests what the library prepares during them, and
 * when.
 */
#include "one_context.h"

#include "abi/transfer_api.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/copy/transfer_ops.h"
#include "engine/transfer/tuning.h"

#include <string.h>

#define DEVICE ((CUdeviceptr)1 << 46)

static unsigned requests;
static char host[GF_MIB(16)];
/* The size of the simulated device's memory. The host's memory is smaller, but no copy reads it. */
#define LARGEST GF_TUNE_PREPARE_NOW
static bool is_pinned; /* the host's memory is pinned */

static CUresult attributes(unsigned count, CUpointer_attribute *what, void **into, CUdeviceptr at)
{
    const bool device = at - DEVICE < LARGEST;
    for (unsigned i = 0; i < count; i++)
        switch (what[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)into[i] = device      ? CU_MEMORYTYPE_DEVICE
                                   : is_pinned ? CU_MEMORYTYPE_HOST
                                               : 0;
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
        default: /* all other attributes keep the caller's 0 */
            break;
        }
    return answer();
}

/* Functions that staging needs. A first copy must not call them. */
static CUresult never(void)
{
    fail_msg("the first copy is left to the driver");
    return CUDA_ERROR_UNKNOWN;
}
#define NEVER(name) .name = (__typeof__(name) *)(void (*)(void))never

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    *ret_cpus = (struct gf_cpus){0};
    return (int)one.id + device; /* each device has its own pool, which has no helpers yet */
}

static void count_request(void)
{
    requests++;
}

static const struct gf_transfer_ops *ops;

static int new_context(void **state)
{
    (void)state;
    ops->context_leaving(HANDLE, -1);
    one.id++;
    ops->context_left(HANDLE, -1, CUDA_SUCCESS);
    requests = 0;
    return 0;
}

static uint64_t bypassed(enum gf_bypass why)
{
    struct gf_copy_stats stats;
    uint64_t sum = 0;
    gf_copy_stats_read(&stats);
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        for (unsigned async = 0; async < 2; async++)
            sum += stats.bypassed[direction][async][why].calls;
    return sum;
}

static uint64_t warming(void)
{
    return bypassed(gf_bypass_warming);
}

static struct gf_copy_call call_of(enum gf_copy_way way, size_t bytes)
{
    return (struct gf_copy_call){way,   way == gf_copy_batched, DEVICE, (uintptr_t)host,
                                 bytes, CU_STREAM_LEGACY};
}

static struct gf_copy_refusal decline(const struct gf_copy_call *call)
{
    struct gf_copy_refusal refusal;
    CUresult result;
    assert_false(ops->copy(call, &result, &refusal, &(struct gf_copy_wait){0}));
    return refusal;
}

static void return_from_driver(const struct gf_copy_call *call, struct gf_copy_refusal refusal)
{
    ops->copy_declined(call, &refusal, 1000);
}

/* Starting helpers and mapping a ring would slow the driver's copy down. */
static void preparing_begins_after_the_drivers_call(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host));
    const uint64_t before = warming();
    (void)state;
    const struct gf_copy_refusal refusal = decline(&call);
    assert_int_equal(warming(), before + 1);
    assert_int_equal(requests, 0);
    return_from_driver(&call, refusal);
    assert_int_equal(requests, 1);
    return_from_driver(&call, decline(&call)); /* the request for preparation is pending */
    assert_int_equal(requests, 1);
}

/*
 * When the driver returns from any copy, the request is passed on. The copy that made the request
 * may still run.
 */
static void any_drivers_call_passes_the_request_on(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host)),
                              other = call_of(gf_copy_h2d, GF_MIB(4));
    (void)state;
    decline(&call);
    const struct gf_copy_refusal refusal = decline(&other);
    assert_int_equal(requests, 0);
    return_from_driver(&other, refusal);
    assert_int_equal(requests, 1);
}

/*
 * A very large copy requests the preparation before the driver's call, so that the next such copy
 * finds the ring ready.
 */
static void a_very_large_copy_requests_at_once(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, LARGEST);
    (void)state;
    const struct gf_copy_refusal refusal = decline(&call);
    assert_true(requests > 0);
    const unsigned before = requests;
    return_from_driver(&call, refusal);
    assert_int_equal(requests, before);
}

/*
 * A very large copy passes on a small copy's deferred request while the driver still makes the
 * small copy.
 */
static void a_very_large_copy_passes_deferred_requests_on(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_h2d, sizeof(host)),
                              large = call_of(gf_copy_h2d, LARGEST);
    (void)state;
    const struct gf_copy_refusal refusal = decline(&call);
    assert_int_equal(requests, 0);
    decline(&large);
    assert_int_equal(requests, 1);
    return_from_driver(&call, refusal);
    assert_int_equal(requests, 1);
}

/* No hook runs after the driver's call for a whole batch, so a batch defers no request. */
static void a_batch_defers_no_request(void **state)
{
    const struct gf_copy_call call = call_of(gf_copy_batched, sizeof(host));
    (void)state;
    assert_false(ops->copy_fits(&call));
    assert_int_equal(requests, 1);
}

static void copy_by_driver(enum gf_copy_way way, size_t bytes)
{
    const struct gf_copy_call call = call_of(way, bytes);
    one.calls = 0;
    return_from_driver(&call, decline(&call));
}

/*
 * This test and the next two run first and in this order, because they need a process without any
 * preparation. Driver calls would take a tenth of a first copy's time.
 */
static void first_small_copies_make_no_driver_call(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GF_TUNE_EARLY_COPIES; i++) {
        copy_by_driver(i % 2 ? gf_copy_h2d : gf_copy_d2h, GF_TUNE_EARLY_BYTES - 1);
        assert_int_equal(one.calls, 0);
        assert_int_equal(bypassed(gf_bypass_early), i + 1);
    }
    for (unsigned i = 1; i < GF_TUNE_EARLY_COPIES; i++) {
        /* Only the driver knows the direction of such a copy. */
        copy_by_driver(gf_copy_any, GF_TUNE_EARLY_BYTES - 1);
        assert_int_not_equal(one.calls, 0);
    }
    assert_int_equal(bypassed(gf_bypass_early), GF_TUNE_EARLY_COPIES);
    assert_int_equal(warming(), GF_TUNE_EARLY_COPIES - 1);
}

/* A program that copies mostly pinned memory needs no helpers. */
static void pinned_copies_prepare_nothing(void **state)
{
    const uint64_t before = warming();
    (void)state;
    is_pinned = true;
    for (unsigned i = 0; i < 2 * GF_TUNE_EARLY_COPIES; i++)
        copy_by_driver(gf_copy_h2d, GF_TUNE_EARLY_BYTES - 1);
    copy_by_driver(gf_copy_h2d, sizeof(host));
    is_pinned = false;
    assert_int_equal(warming(), before);
    assert_int_equal(requests, 0);
}

static void small_copies_prepare_after_the_first_ones(void **state)
{
    (void)state;
    copy_by_driver(gf_copy_h2d, GF_TUNE_EARLY_BYTES - 1);
    assert_int_equal(requests, 0);
    copy_by_driver(gf_copy_h2d, GF_TUNE_EARLY_BYTES - 1);
    assert_int_equal(requests, 1);
}

/* This test is last, because it turns staging off: without an id no context can be entered. */
static void a_driver_without_context_ids_turns_staging_off(void **state)
{
    struct gf_cuda cuda = *gf_setup.cuda;
    const struct gf_cuda *before = gf_setup.cuda;
    (void)state;
    cuda.cuCtxGetId = NULL;
    gf_setup.cuda = &cuda;
    gf_admission_start(&(struct gf_transfer_ops){0});
    gf_setup.cuda = before;
    assert_string_equal(gf_admission_off(), "the driver lacks a function");
}

int main(void)
{
    static const struct gf_options options = {.stage = gf_stage_auto,
                                              .stage_min = GF_SIZE_AUTO,
                                              .stage_ring = GF_SIZE_AUTO,
                                              .stage_threads = 4,
                                              .pin = gf_pin_off,
                                              .mode = gf_mode_on};
    static const struct gf_cuda cuda = {ONE_CONTEXT,
                                        .cuPointerGetAttributes = attributes,
                                        NEVER(cuEventCreate),
                                        NEVER(cuEventRecord),
                                        NEVER(cuEventQuery),
                                        NEVER(cuStreamQuery),
                                        NEVER(cuEventSynchronize),
                                        NEVER(cuStreamSynchronize),
                                        NEVER(cuStreamCreateWithPriority),
                                        NEVER(cuStreamDestroy_v2),
                                        NEVER(cuMemHostRegister_v2),
                                        NEVER(cuMemHostUnregister),
                                        NEVER(cuMemcpyHtoD_v2),
                                        NEVER(cuMemcpyHtoD_v2_ptds),
                                        NEVER(cuMemcpyHtoDAsync_v2),
                                        NEVER(cuMemcpyDtoH_v2),
                                        NEVER(cuMemcpyDtoH_v2_ptds),
                                        NEVER(cuMemcpyDtoHAsync_v2)};
    const struct gf_transfer_setup setup = {.options = &options,
                                            .cuda = &cuda,
                                            .device_node = device_node,
                                            .request_prepare = count_request};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first_small_copies_make_no_driver_call, new_context),
        cmocka_unit_test_setup(pinned_copies_prepare_nothing, new_context),
        cmocka_unit_test_setup(small_copies_prepare_after_the_first_ones, new_context),
        cmocka_unit_test_setup(preparing_begins_after_the_drivers_call, new_context),
        cmocka_unit_test_setup(any_drivers_call_passes_the_request_on, new_context),
        cmocka_unit_test_setup(a_very_large_copy_requests_at_once, new_context),
        cmocka_unit_test_setup(a_very_large_copy_passes_deferred_requests_on, new_context),
        cmocka_unit_test_setup(a_batch_defers_no_request, new_context),
        cmocka_unit_test(a_driver_without_context_ids_turns_staging_off),
    };
    one.is_primary = true;
    ops = gf_transfer_start(&setup);
    return cmocka_run_group_tests_name("first_copy", tests, NULL, NULL);
}
