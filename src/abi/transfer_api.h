/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of struct gf_engine that serves copies and pinned memory: src/engine/transfer. These
 * functions may wait as long as the driver's would: a copy for its stream, a free for the device.
 *
 * Hooks call them on the program's threads, with cancellation disabled. The thread is marked by
 * gf_engine_enter, so hooks pass the engine's own CUDA calls through. A function that returns bool
 * returns true if it has served the program's call, and sets *ret_result to the driver's result. It
 * returns false if it had no effect that the program can see. The hook then calls the driver with
 * the caller's own arguments, and *ret_result is unspecified.
 */
#ifndef GF_ABI_TRANSFER_API_H
#define GF_ABI_TRANSFER_API_H

#include "base/base.h"
#include "abi/cuda.h"

enum gf_copy_way {
    gf_copy_h2d, /* the called function defines src as host memory */
    gf_copy_d2h, /* the called function defines dst as host memory */
    gf_copy_any, /* the addresses decide, as for cuMemcpy */
    /*
     * A copy of a batch. As with gf_copy_any, the addresses decide. Only copies to the device are
     * staged.
     */
    gf_copy_batched,
};

/* One linear copy of `bytes`. dst and src hold host addresses as numbers. */
struct gf_copy_call {
    enum gf_copy_way way;
    bool async;
    CUdeviceptr dst, src;
    size_t bytes;
    CUstream stream; /* never 0: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD instead */
};

/* The engine's reason for declining a copy. The hook does not read it. */
struct gf_copy_refusal {
    uint32_t direction; /* an enum gf_direction of the engine */
    uint32_t reason;    /* an enum gf_bypass of the engine */
    /*
     * 1: the stream was idle when the engine declined, so the driver's call waits for no earlier
     * work.
     */
    uint32_t stream_was_idle;
    uint32_t is_queued; /* 1: an asynchronous copy to the device, behind unfinished work */
    uint32_t readahead; /* reading ahead of the copy, which copy_declined ends; 0: none */
    /* Bytes that the driver was copying at that time, including this copy; 0: not counted. */
    uint64_t under_way;
};

/* Stands for the device if a call names none. */
#define GF_ANY_DEVICE (-2)

struct gf_transfer_ops {
    /* The smallest copy that is offered, in bytes. SIZE_MAX: no copy is staged or counted. */
    size_t copy_least;
    /*
     * A smaller copy of at least copy_least_shared bytes is offered while at least copy_sharers
     * threads copy.
     */
    size_t copy_least_shared;
    const _Atomic unsigned *copy_sharers;
    /* False: *ret_refusal must be passed to copy_declined. */
    bool (*copy)(const struct gf_copy_call *call, CUresult *ret_result,
                 struct gf_copy_refusal *ret_refusal);
    /*
     * Called after the driver's call for a declined copy, which took `ns` nanoseconds. May be NULL.
     */
    void (*copy_declined)(const struct gf_copy_call *call, const struct gf_copy_refusal *refusal,
                          uint64_t ns);
    /*
     * Whether `copy` would stage this copy now. Makes the same checks as `copy`, but copies
     * nothing. The checks may prepare staging, and they count a declined copy with its reason. The
     * pointer is NULL if no copy would be staged.
     */
    bool (*copy_fits)(const struct gf_copy_call *call);

    /*
     * Pinned memory. Calls with NULL out-parameters or unusual flags return false and are left to
     * the driver.
     */
    bool (*host_alloc)(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
    bool (*host_free)(void *p, CUresult *ret_result);
    /* For memory of host_alloc the result is the same as for memory of the driver. */
    bool (*host_unregister)(void *p, CUresult *ret_result);
    /*
     * Called before the driver's cuMemHostRegister: prefaults the pages, and returns false. For
     * memory of host_alloc it serves the call itself, because the driver already has that memory
     * registered.
     */
    bool (*host_register)(void *p, size_t bytes, unsigned flags, CUresult *ret_result);
    /*
     * Called after a successful cuMemHostGetFlags: replaces the flags by those that the driver
     * would report without the library.
     */
    void (*host_flags)(const void *p, unsigned *flags);
    /*
     * Called after a successful query of CU_POINTER_ATTRIBUTE_MAPPING_SIZE: replaces the size in
     * the same way.
     */
    void (*host_mapping)(const void *p, size_t *bytes);

    /*
     * Called after a successful call of the program that waited for all work of the current
     * context. Memory that only the library holds may be released here.
     */
    void (*waited)(void);

    /*
     * Called before a large munmap. Helpers may remove the range's pages from the page tables, so
     * that the munmap takes less time. True: the range is already unmapped, and the hook must not
     * call munmap. May be NULL.
     */
    bool (*unmap)(void *at, size_t bytes);

    /*
     * Called before and after a call by which a stream may enter a capture. Between the two, the
     * engine issues no copy on a stream of the program.
     */
    void (*capture_begins)(void);
    void (*capture_begun)(void);

    /*
     * Called before and after calls that may end contexts. For the destruction of a context,
     * `device` is -1. For the release or reset of a primary context, `context` is NULL and `device`
     * is given or GF_ANY_DEVICE. context_leaving refuses new work for the context, and waits for
     * running copies. context_left gets the result of the driver's call, and drops the state of
     * contexts that ended.
     */
    void (*context_leaving)(CUcontext context, CUdevice device);
    void (*context_left)(CUcontext context, CUdevice device, CUresult result);
};

#endif
