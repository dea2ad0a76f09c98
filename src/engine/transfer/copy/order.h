/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a copy takes its place among the work of its stream. To other threads, a copy is one
 * operation of the stream. So it is cut into several DMAs only if no other thread uses the stream at
 * this time, and it then holds the stream (context/hold.h).
 */
#ifndef GF_ENGINE_TRANSFER_COPY_ORDER_H
#define GF_ENGINE_TRANSFER_COPY_ORDER_H

#include "engine/transfer/copy/pipeline.h"

enum gf_order {
    /* The stream is idle, and the copy holds it: the copy may be cut into several DMAs. */
    gf_order_cut,
    /*
     * The stream has unfinished work, or other threads use it now. A copy that need not wait is a
     * single DMA behind their work.
     */
    gf_order_queued,
};

/*
 * Chooses the order. `waits`: the driver's call would wait for the stream's earlier work before it
 * accesses the program's memory. Then this function waits for it, too, and the result is
 * gf_order_cut, or gf_bypass_shared if other threads use the stream: only the driver keeps them away
 * while the memory is accessed. Otherwise it waits for at most GF_TUNE_IDLE_NS. Takes no memory of the
 * ring. Otherwise returns the same as gf_pipeline_await_stream. If the copy holds the stream already,
 * the result is gf_order_cut at once.
 */
enum gf_bypass gf_order_choose(const struct gf_stage_request *request, bool waits,
                               struct gf_stage_result *ret, enum gf_order *ret_order);
/*
 * The same for a copy that cannot be a single DMA, because no memory of the ring is free for it. It
 * waits, and is cut even if a call met a hold of the stream lately.
 */
enum gf_bypass gf_order_insist(const struct gf_stage_request *request, struct gf_stage_result *ret);

#endif
