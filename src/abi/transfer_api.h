/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of struct gf_engine that serves copies and pinned memory: src/engine/transfer. These
 * functions may wait as long as the driver's own functions would. For example, a copy may wait for
 * its stream, and a free for the device.
 *
 * Hooks call them on the program's threads, with cancellation disabled. The thread is marked by
 * gf_engine_enter, so hooks pass the engine's own CUDA calls through. A function with a parameter
 * ret_result returns true if it has served the program's call; *ret_result is then the driver's
 * result. Such a function returns false if it had no effect that the program can see. The hook then
 * calls the driver with the caller's own arguments, and *ret_result is unspecified.
 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"

enum gf_copy_way {
    gf_copy_h2d, /* the function that the program called takes src as host memory */
    gf_copy_d2h, /* the function that the program called takes dst as host memory */
    gf_copy_any, /* the addresses determine the direction, as for cuMemcpy */
    /*
     * A member of a batch. As with gf_copy_any, the addresses determine the direction. Only copies
     * to the device are staged.
     */
    gf_copy_batched,
};

/*
 * One linear copy of `bytes`. If dst or src is host memory, the member contains its address as a
 * number.
 */
struct gf_copy_call {
    enum gf_copy_way way;
    bool async;
    CUdeviceptr dst, src;
    size_t bytes;
    CUstream stream; /* never 0: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD instead */
};

/* The engine's reason for declining a copy. The hook only passes it on to copy_declined. */
struct gf_copy_refusal {
    uint32_t direction; /* an enum gf_direction of the engine */
    uint32_t reason;    /* an enum gf_bypass of the engine */
    /*
     * 1: the stream was idle when the engine declined the copy, so the driver's call need not wait
     * for earlier work.
     */
    uint32_t stream_was_idle;
    /* 1: an asynchronous copy to the device that is queued behind unfinished work. */
    uint32_t is_queued;
    /* Number of the copy's read-ahead, which copy_declined ends; 0: no read-ahead. */
    uint32_t readahead;
    /*
     * Bytes in copies that the driver was making when the engine declined, including this copy. 0:
     * not counted.
     */
    uint64_t under_way;
};

/* How a copy waited for earlier work of its own stream. The engine sets it in either case. */
struct gf_copy_wait {
    bool to_device;
    /* The copy accesses pageable memory now, so the driver's call may wait for the stream. */
    bool pageable;
    bool queued; /* staged, and queued behind unfinished work, so that the call did not wait */
    uint64_t ns; /* duration of the library's own wait, within some microseconds */
};

/* Passed in place of a device if the program's call names no device. */
#define GF_ANY_DEVICE (-2)

struct gf_transfer_ops {
    /*
     * The size of the smallest copy that hooks offer to the engine, in bytes. SIZE_MAX: no copy is
     * staged or counted.
     */
    size_t copy_least;
    /*
     * A smaller copy of at least copy_least_shared bytes is offered only if, with this copy, at
     * least *copy_sharers copies of at least copy_least_shared bytes are in progress.
     */
    size_t copy_least_shared;
    const _Atomic unsigned *copy_sharers;
    /* If it returns false, the hook must pass *ret_refusal to copy_declined. */
    bool (*copy)(const struct gf_copy_call *call, CUresult *ret_result,
                 struct gf_copy_refusal *ret_refusal, struct gf_copy_wait *ret_wait);
    /*
     * Called after the driver has served a declined copy. `ns` is the duration of the driver's call
     * in nanoseconds. May be NULL.
     */
    void (*copy_declined)(const struct gf_copy_call *call, const struct gf_copy_refusal *refusal,
                          uint64_t ns);
    /*
     * Returns whether `copy` would stage this copy now. Makes the same checks as `copy`, but copies
     * nothing. The checks may prepare staging, and they count a declined copy with its reason. If it
     * returned true, batch_end must be called after all members were submitted: until then the batch
     * holds its stream, so that no other thread's work gets between the members. May be NULL.
     */
    bool (*copy_fits)(const struct gf_copy_call *call);
    /* Called after copy_fits, also if it has returned false. May be NULL. */
    void (*batch_end)(void);

    /*
     * Pinned memory. Calls with NULL out-parameters or unusual flags return false and are left to
     * the driver.
     */
    bool (*host_alloc)(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
    bool (*host_free)(void *p, CUresult *ret_result);
    /*
     * Called on a thread that is inside the engine, after the driver has allocated for a signal
     * handler or a tool's callback. Takes no lock.
     */
    void (*host_alloc_inside)(void);
    /*
     * For memory that host_alloc returned, the program gets the same result as for memory that the
     * driver allocated.
     */
    bool (*host_unregister)(void *p, CUresult *ret_result);
    /*
     * Called before the driver's cuMemHostRegister: prefaults the pages, and returns false. For
     * memory that host_alloc returned, it serves the call itself, because that memory is already
     * registered with the driver.
     */
    bool (*host_register)(void *p, size_t bytes, unsigned flags, CUresult *ret_result);
    /* Called after memory was allocated or registered. */
    void (*host_pinned)(const void *at, size_t bytes, unsigned flags);
    /*
     * Called after a successful cuMemHostGetFlags: replaces the flags by those that the driver
     * would report without the library.
     */
    void (*host_flags)(const void *p, unsigned *flags);
    /*
     * Called after a successful query of CU_POINTER_ATTRIBUTE_MAPPING_SIZE: replaces the size by
     * the one that the driver would report without the library.
     */
    void (*host_mapping)(const void *p, size_t *bytes);

    /*
     * Called before cuMemFree. Returns true if the driver's free waits for all work of the current
     * context, and the engine wants to be notified of this wait. Then `waited` is called after the
     * free.
     */
    bool (*device_free_waits)(CUdeviceptr p);
    /*
     * Called after a call of the program has waited successfully for all work of the current
     * context. The engine may then release memory that only the library holds.
     */
    void (*waited)(void);

    /*
     * Called before a large munmap. Helpers may remove the range's pages from the page tables
     * first, so that the munmap takes less time. If the result is not NULL, the hook passes it to
     * `unmapped` after the munmap. May be NULL.
     */
    void *(*unmap)(void *at, size_t bytes);
    /* Called after the munmap. failed: whether it failed. */
    void (*unmapped)(void *kept, bool failed);

    /*
     * Called before a call of the program puts something on a stream, if gf_submit_table.holds is
     * not 0. Waits, with a limit, while another thread's copy holds the stream; before a capture
     * begins, while another thread's batch does. NULL: copies hold no stream.
     */
    void (*await_hold)(CUstream stream, bool begins_capture);

    /*
     * capture_begins is called before a driver call that may make a stream enter a capture, and
     * capture_begun after that call. Between these two calls, the engine issues no copy on a stream
     * of the program.
     */
    void (*capture_begins)(void);
    void (*capture_begun)(void);

    /*
     * context_leaving is called before a driver call that may end contexts, and context_left after
     * it. For the destruction of a context, `device` is -1. For the release or reset of a primary
     * context, `context` is NULL, and `device` is the device or GF_ANY_DEVICE. From context_leaving
     * on, the engine accepts no new work for the context; context_leaving also waits for running
     * copies. context_left gets the result of the driver's call, and drops the state of contexts
     * that have ended.
     */
    void (*context_leaving)(CUcontext context, CUdevice device);
    void (*context_left)(CUcontext context, CUdevice device, CUresult result);
};
