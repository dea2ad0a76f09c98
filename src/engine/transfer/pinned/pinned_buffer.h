/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"

/*
 * The sizes of pinned buffers that the program frees while it runs, so that it may allocate them
 * again. Only buffers of these sizes are kept after a free. A size is a number of whole huge pages,
 * as of the driver's mappings. Any thread; no lock, no CUDA call.
 */

/* Whether buffers of this size are observed: from 2 MiB to 32 MiB. */
bool gf_recycled_covers(size_t bytes);

/* The driver has allocated a block for the program. */
void gf_recycled_allocated(const void *at, size_t bytes);
/* The program frees a block of the driver; another address is ignored. */
void gf_recycled_freed(const void *at);

/* The program frees a buffer of the library. */
void gf_recycled_note(size_t bytes);

/* Whether the program has freed a buffer of this size. */
bool gf_recycled(size_t bytes);

/*
 * Large pinned buffers that the program gets instead of the driver's. Each is a mapping of the
 * library with one registration. CUDA calls on it return the same as for memory of the driver. Any
 * thread. No lock is held during a CUDA call, a wait or a change of mappings.
 */

struct gf_pinned_mapping;
struct gf_pool;
struct gf_range_policy;

struct gf_pinned_buffer_request {
    const struct gf_cuda *cuda;
    struct gf_pool *pool; /* helpers that touch the pages */
    uint64_t context;     /* the id of the current context */
    const struct gf_range_policy *policy;
    /* A mapping for the buffer (kept_mapping.h), which the call consumes; NULL: it makes one. */
    const struct gf_pinned_mapping *kept;
    unsigned flags; /* the flags that the program passed, for cuMemHostGetFlags */
};

/*
 * `flags`: the flags for the registration, PORTABLE and DEVICEMAP at most. True: *ret_result is the
 * result that the driver would have returned, and *pp is set on success. False: the program sees no
 * change. ret_fault->call is NULL unless a call failed that is expected to fail again.
 */
bool gf_pinned_buffer_alloc(const struct gf_pinned_buffer_request *request, void **pp, size_t bytes,
                            unsigned flags, CUresult *ret_result, struct gf_fault *ret_fault);

/*
 * Serve cuMemFreeHost and cuMemHostUnregister. They return false if the pointer is not the start of
 * a buffer here; then the caller must call the driver. If a buffer cannot be unregistered, and no
 * error of the program is the cause, the buffer is kept until its context ends, and *ret_fault
 * describes the failure. Otherwise ret_fault->call is NULL. The mapping of a freed buffer may be
 * kept for reuse, if at most room() bytes are kept then; NULL: it is unmapped. room is called after
 * the wait for the device.
 */
typedef uint64_t gf_kept_room_fn(void);
bool gf_pinned_buffer_free(const struct gf_cuda *cuda, void *p, gf_kept_room_fn *room,
                           CUresult *ret_result, struct gf_fault *ret_fault);
bool gf_pinned_buffer_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result);

/*
 * Replaces the flags that the driver reported for p by the program's. False: p is in no buffer
 * here.
 */
bool gf_pinned_buffer_flags(const void *p, unsigned *flags);

/*
 * If p is in a buffer here, replaces the size that the driver reported for p's mapping by the size in
 * whole huge pages, as for the driver's own mappings.
 */
void gf_pinned_buffer_mapping(const void *p, size_t *bytes);

/*
 * Whether a buffer here overlaps a range. For such a range, the driver's error differs from the one
 * without the library.
 */
bool gf_pinned_buffer_meets(const void *p, size_t bytes);

/* Called when the context has ended, and its registrations with it. */
void gf_pinned_buffer_forget(uint64_t context);

/*
 * Gets the bytes that the program holds now, by node, for the report. All are 0 if the lock is not
 * free in time.
 */
void gf_pinned_buffer_held(uint64_t ret[GF_NODE_BYTES_COUNT]);
