/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer, and when the program may touch its source and destination again. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "sim.h"

/* A block of rows; a plain copy has one row. Addresses are the program's. */
struct sim_block {
    uintptr_t dst, src;
    size_t width, height, depth;
    size_t dst_pitch, src_pitch; /* distance between rows */
    size_t dst_slice, src_slice; /* distance between slices */
};

/* The kind of memory that an end must have. With sim_any, the address determines it. */
enum sim_side { sim_any, sim_host_side, sim_device_side };

/* How late the driver may read the source, by the caller's request. */
enum sim_when {
    sim_at_once,       /* a synchronous call */
    sim_queued,        /* an asynchronous call */
    sim_in_order,      /* batch members with SRC_ACCESS_ORDER_STREAM: pageable bytes too */
    sim_before_return, /* batch members with SRC_ACCESS_ORDER_DURING_API_CALL */
    sim_whenever,      /* batch members with SRC_ACCESS_ORDER_ANY */
};

/* Copies on the stream that the handle means. */
CUresult sim_copy(bool per_thread, CUstream handle, const struct sim_block *block,
                  enum sim_side dst, enum sim_side src, enum sim_when when);
struct sim_block sim_line(uintptr_t dst, uintptr_t src, size_t size);
/*
 * The caller holds the lock. With SIM_EXCLUSIVE, waits until no call of a pageable copy is under way:
 * the driver's calls that create, register or begin a capture need a lock that such a copy shares.
 */
void sim_await_copies(void);

/*
 * Makes the operation of a graph node. Returns NULL if the block does not fit the memory at its
 * ends.
 */
struct sim_op *sim_copy_op(const struct sim_block *block, enum sim_side dst, enum sim_side src);

#endif
