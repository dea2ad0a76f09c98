/* SPDX-License-Identifier: Apache-2.0 */
/* One transfer, and when the program may touch its two ends again. */
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

/* The kind of memory that an end must be. With sim_any the address decides. */
enum sim_side { sim_any, sim_host_side, sim_device_side };

/* When the source may be read at the latest, by the caller's request. */
enum sim_when {
    sim_at_once,       /* a synchronous call */
    sim_queued,        /* an asynchronous one */
    sim_in_order,      /* batch members with SRC_ACCESS_ORDER_STREAM: pageable bytes too */
    sim_before_return, /* batch members with SRC_ACCESS_ORDER_DURING_API_CALL */
    sim_whenever,      /* batch members with SRC_ACCESS_ORDER_ANY */
};

/* Copies on the stream that the handle means. */
CUresult sim_copy(bool per_thread, CUstream handle, const struct sim_block *block,
                  enum sim_side dst, enum sim_side src, enum sim_when when);
struct sim_block sim_line(uintptr_t dst, uintptr_t src, size_t size);
/* NULL if the block does not fit the driver's knowledge of its ends. For graph nodes. */
struct sim_op *sim_copy_op(const struct sim_block *block, enum sim_side dst, enum sim_side src);

#endif
