/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by many threads at once, while contexts end and the ring grows and shrinks. It also runs
 * under ThreadSanitizer.
 */
#include "one_context.h"

#include "abi/transfer_api.h"
#include "base/atomic.h"
#include "os/headroom.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/copy/transfer_ops.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMORY GF_MIB(16) /* of the device, for each thread */
#define THREADS 5
#ifdef __SANITIZE_THREAD__
#define ROUNDS 12 /* each access to memory takes longer */
#else
#define ROUNDS 40
#endif
#define PINNED ((void *)(uintptr_t)4096) /* memory of cuMemHostAlloc */

/* A fake driver. Its transfers end at once, and its events complete at the second query. */
static struct {
    char memory[THREADS * MEMORY];
    _Atomic time_t clock_offset; /* in seconds */
    _Atomic unsigned records;    /* the number of events until one fails; 0: none fails */
    _Atomic unsigned waits;      /* number of waits for a stream */
    CUcontext owner;             /* of `memory` */
    CUmemoryPool pool;           /* of `memory`; NULL: allocated by cuMemAlloc */
} driver;

struct event {
    _Atomic unsigned queries;
    struct event *before;
};

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    const int result = __real_clock_gettime(clock, ret);
    ret->tv_sec += gf_load_relaxed(&driver.clock_offset);
    return result;
}

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);

/*
 * Replaces gf_headroom_read, which unmaps its buffer by a raw system call. ThreadSanitizer does not
 * see that call, and would take the next mapping at this address for the same memory.
 */
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    (void)root, (void)node;
    *ret = (struct gf_headroom){.bytes = (uint64_t)4 << 30};
}

static CUresult attributes(unsigned count, CUpointer_attribute *what, void **into, CUdeviceptr at)
{
    const CUdeviceptr start = (uintptr_t)driver.memory;
    const bool device = at - start < sizeof(driver.memory), pinned = at == (uintptr_t)PINNED;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t value =
            what[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? (device ? CU_MEMORYTYPE_DEVICE : 0)
            : what[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS
                ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
            : what[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR  ? start
            : what[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE        ? sizeof(driver.memory)
            : what[i] == CU_POINTER_ATTRIBUTE_CONTEXT && pinned ? (uintptr_t)HANDLE
            : what[i] == CU_POINTER_ATTRIBUTE_CONTEXT && device ? (uintptr_t)driver.owner
            : what[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE    ? (uintptr_t)driver.pool
                                                                : 0;
        const bool wide = what[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                          what[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                          what[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
                          what[i] == CU_POINTER_ATTRIBUTE_CONTEXT;
        memcpy(into[i], &value, wide ? 8 : 4);
    }
    return CUDA_SUCCESS;
}

static struct event *_Atomic last_event;

static CUresult create_event(CUevent *ret, unsigned flags)
{
    struct event *event = calloc(1, sizeof(*event));
    (void)flags;
    event->before = gf_load_acquire(&last_event);
    while (!gf_cas_acq_rel(&last_event, &event->before, event))
        continue;
    *ret = (CUevent)event;
    return CUDA_SUCCESS;
}

/* The driver ends a context's events with it. */
static void free_events(void)
{
    for (struct event *event = last_event, *before; event; event = before) {
        before = event->before;
        free(event);
    }
    last_event = NULL;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    (void)stream;
    gf_store_release(&((struct event *)event)->queries, 0);
    if (gf_load_relaxed(&driver.records) && gf_sub_relaxed(&driver.records, 1) == 1)
        return CUDA_ERROR_UNKNOWN;
    return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
    return gf_add_acq_rel(&((struct event *)event)->queries, 1) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_NOT_READY;
}

static CUresult query_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult await_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

/* In another mode, this wait would invalidate a capture of another thread. */
static CUresult await_stream(CUstream stream)
{
    (void)stream;
    gf_add_relaxed(&driver.waits, 1);
    return thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_SUCCESS
                                                         : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult destroy_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *ret, unsigned flags, int priority)
{
    static int streams;
    (void)flags, (void)priority;
    *ret = (CUstream)&streams;
    return CUDA_SUCCESS;
}

static CUresult enlist(void *at, size_t bytes, unsigned flags)
{
    (void)at, (void)bytes, (void)flags;
    return CUDA_SUCCESS;
}

static CUresult give_up(void *at)
{
    (void)at;
    return CUDA_SUCCESS;
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

static CUresult from_device(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

static CUresult to_device_async(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)stream;
    return to_device(to, from, bytes);
}

static CUresult from_device_async(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return from_device(to, from, bytes);
}

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    *ret_cpus = (struct gf_cpus){0};
    (void)device;
    return -1;
}

static const struct gf_transfer_ops *ops;

/* Like the hook: if the engine declines a copy, the driver makes it. */
static void copy(const struct gf_copy_call *call)
{
    CUresult result = CUDA_SUCCESS;
    struct gf_copy_refusal refusal;
    if (!ops->copy(call, &result, &refusal, &(struct gf_copy_wait){0})) {
        memcpy((void *)(uintptr_t)call->dst, (void *)(uintptr_t)call->src, call->bytes);
        ops->copy_declined(call, &refusal, 1000);
        result = CUDA_SUCCESS;
    }
    assert_int_equal(result, CUDA_SUCCESS);
}

static void *work(void *own)
{
    const unsigned number = (unsigned)(uintptr_t)own;
    char *const host = malloc(MEMORY), *const back = malloc(MEMORY),
                *const device = driver.memory + number * MEMORY;
    unsigned seed = number;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const size_t bytes = GF_MIB(1) + (size_t)rand_r(&seed) % (MEMORY - GF_MIB(1));
        const bool async = rand_r(&seed) & 1;
        CUresult result;
        memset(host, (int)(i + number), bytes);
        copy(&(struct gf_copy_call){gf_copy_h2d, async, (uintptr_t)device, (uintptr_t)host, bytes,
                                    CU_STREAM_LEGACY});
        memset(host, 0, bytes);
        copy(&(struct gf_copy_call){gf_copy_d2h, async, (uintptr_t)back, (uintptr_t)device, bytes,
                                    CU_STREAM_LEGACY});
        for (size_t k = 0; k < bytes; k += 509)
            assert_int_equal(back[k], (char)(i + number));
        if (i % 10 == 0) /* the free of such memory may trim the ring */
            ops->host_free(PINNED, &result);
    }
    free(host);
    free(back);
    return NULL;
}

/* Replaces the context by another one with the same handle. */
static void end_context(void)
{
    ops->context_leaving(HANDLE, -1);
    gf_add_release(&one.id, 1);
    ops->context_left(HANDLE, -1, CUDA_SUCCESS);
}

static void *end_contexts(void *over)
{
    while (!gf_load_acquire((_Atomic bool *)over)) {
        struct gf_transfer_state state;
        usleep(60000);
        gf_add_relaxed(&driver.clock_offset, GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
        gf_transfer_state(&state);
        end_context();
    }
    return NULL;
}

static uint64_t staged(void)
{
    struct gf_copy_stats stats;
    uint64_t sum = 0;
    gf_copy_stats_read(&stats);
    for (unsigned i = 0; i < gf_direction_count; i++)
        sum += stats.staged[i][0].calls + stats.staged[i][1].calls;
    return sum;
}

static void all_at_once(void **unused)
{
    pthread_t thread[THREADS], ending;
    _Atomic bool over = false;
    (void)unused;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    assert_int_equal(pthread_create(&ending, NULL, end_contexts, &over), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    gf_store_release(&over, true);
    pthread_join(ending, NULL);
    print_message("# staged %llu of %u\n", (unsigned long long)staged(), 2 * THREADS * ROUNDS);
    for (unsigned i = 0; i < 100 && !staged();
         i++) /* on a busy machine, each context may end before its ring is ready */
        work(0);
    assert_true(staged() > 0);
}

static uint64_t ring_bytes(void)
{
    struct gf_transfer_state state;
    gf_transfer_state(&state);
    return state.ring_bytes;
}

static void warm(char *host)
{
    for (unsigned i = 0; i < 1000 && !ring_bytes(); i++)
        copy(&(struct gf_copy_call){gf_copy_h2d, false, (uintptr_t)driver.memory, (uintptr_t)host,
                                    MEMORY, CU_STREAM_LEGACY});
    assert_true(ring_bytes());
}

static unsigned first_submitter(void)
{
    return 0;
}

static void other_thread_submits(bool yes)
{
    static struct gf_submit_table table = {.submitters[1].stream = 8};
    struct gf_transfer_setup now = gf_setup;

    now.submissions = yes ? &table : NULL;
    now.submitter = first_submitter;
    gf_setup = now;
}

/*
 * A call that waits for the context releases only those segments that were long unused, and only while
 * no other thread is inside a call that submits work.
 */
static void waits_release_stale_segments(void **unused)
{
    char *const host = calloc(1, MEMORY);
    (void)unused;
    warm(host);
    const uint64_t full = ring_bytes();
    assert_true(full);
    ops->waited();
    assert_int_equal(ring_bytes(), full);
    gf_add_relaxed(&driver.clock_offset, GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
    other_thread_submits(true);
    ops->waited();
    assert_int_equal(ring_bytes(), full);
    other_thread_submits(false);
    ops->waited();
    assert_int_equal(ring_bytes(), 0);
    free(host);
}

/*
 * Only a free of memory that cuMemAlloc allocated in the current context waits for that context.
 * The engine asks for the notification only if segments may be due for removal.
 */
static void some_frees_wait(void **unused)
{
    const CUdeviceptr at = (uintptr_t)driver.memory;
    CUmemoryPool const pool = (CUmemoryPool)(uintptr_t)128;
    (void)unused;
    const bool due = ops->device_free_waits(at);
    gf_add_relaxed(&driver.clock_offset, GF_TUNE_RING_IDLE_NS / 1000000000 + 1);
    driver.owner = HANDLE;
    assert_true(ops->device_free_waits(at));
    assert_false(due);
    assert_false(ops->device_free_waits(0));
    driver.pool = pool;
    assert_false(ops->device_free_waits(at));
    driver.pool = NULL;
    driver.owner = (CUcontext)(uintptr_t)256;
    assert_false(ops->device_free_waits(at));
    driver.owner = HANDLE;
    ops->waited();
    assert_false(ops->device_free_waits(at));
}

/*
 * An event fails in the middle of a copy. The driver makes the rest, and the library waits for it
 * in the relaxed mode. Afterwards the thread has its own mode again.
 */
static void waits_for_the_rest_beside_captures(void **unused)
{
    CUstream const streams[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    char *const host = calloc(1, MEMORY);
    (void)unused;
    for (unsigned i = 0; i < GF_ARRAY_LEN(streams); i++) {
        end_context();
        warm(host);
        gf_store_relaxed(&driver.waits, 0);
        gf_store_relaxed(&driver.records, 2);
        copy(&(struct gf_copy_call){gf_copy_h2d, false, (uintptr_t)driver.memory, (uintptr_t)host,
                                    MEMORY, streams[i]});
        assert_int_equal(gf_load_relaxed(&driver.waits), 1);
        assert_int_equal(thread_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    free(host);
}

int main(void)
{
    static struct gf_options options = {.stage = gf_stage_auto,
                                        .stage_min = GF_MIB(1),
                                        .stage_ring = GF_SIZE_AUTO,
                                        .stage_threads = 4,
                                        .pin = gf_pin_off,
                                        .mode = gf_mode_on};
    static const struct gf_cuda cuda = {ONE_CONTEXT,
                                        .cuPointerGetAttributes = attributes,
                                        .cuEventCreate = create_event,
                                        .cuEventRecord = record_event,
                                        .cuEventQuery = query_event,
                                        .cuStreamQuery = query_stream,
                                        .cuEventSynchronize = await_event,
                                        .cuStreamSynchronize = await_stream,
                                        .cuStreamCreateWithPriority = create_stream,
                                        .cuStreamDestroy_v2 = destroy_stream,
                                        .cuMemHostRegister_v2 = enlist,
                                        .cuMemHostUnregister = give_up,
                                        .cuMemFreeHost = give_up,
                                        .cuMemcpyHtoD_v2 = to_device,
                                        .cuMemcpyHtoD_v2_ptds = to_device,
                                        .cuMemcpyHtoDAsync_v2 = to_device_async,
                                        .cuMemcpyDtoH_v2 = from_device,
                                        .cuMemcpyDtoH_v2_ptds = from_device,
                                        .cuMemcpyDtoHAsync_v2 = from_device_async};
    const struct gf_transfer_setup setup = {
        .options = &options, .cuda = &cuda, .device_node = device_node};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once), cmocka_unit_test(waits_release_stale_segments),
        cmocka_unit_test(some_frees_wait), cmocka_unit_test(waits_for_the_rest_beside_captures)};
    one.id = 1;
    ops = gf_transfer_start(&setup);
    const int failed = cmocka_run_group_tests_name("copy_admission", tests, NULL, NULL);
    free_events();
    return failed;
}
