/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline makes one staged copy through slots of the ring. The threads of the pool copy pieces
 * between the program's memory and the slots. The caller issues one DMA for each chunk, in order.
 * Chunk n uses slot n modulo the number of slots that the copy has.
 *
 * All functions are called on the thread of the program that called the copy. That thread has
 * entered the context, and its capture mode is relaxed.
 */
#pragma once

#include "abi/transfer_api.h"
#include "engine/transfer/copy/plan.h"
#include "engine/transfer/copy/ring.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"

/* A copy that is to be staged. */
struct gf_stage_request {
    const struct gf_copy_call *call;
    struct gf_context *context; /* the context that the copy has entered */
    struct gf_ring *ring;
    unsigned captures;    /* as in struct gf_admission */
    unsigned readahead;   /* the result of gf_readahead_begin */
    struct gf_hold *hold; /* the copy's hold of its stream; staged_copy.c begins it */
};

/* The result of a staged copy. */
struct gf_stage_result {
    CUresult result;         /* the result of the program's call */
    size_t done;             /* bytes copied; the driver copies the rest */
    uint64_t stream_done_ns; /* the time when earlier work on the stream was found to have ended */
    uint64_t stream_wait_ns; /* for how long the library waited for earlier work on the stream */
    bool stream_was_idle;    /* the stream had no unfinished work at stream_done_ns */
    bool is_queued;          /* the copy is asynchronous, and queued behind unfinished work */
    uint64_t under_way;      /* the result of gf_under_way_enter at stream_done_ns; 0: not called */
    bool met_driver;         /* the result of gf_under_way_by_driver at stream_done_ns */
    /*
     * The number of the read-ahead for a copy that is left to the driver, which ends after the
     * driver's call; 0: none.
     */
    unsigned readahead;
    /*
     * The copy's hold of its stream. It ends with the copy, and if the driver copies the rest, after
     * the driver's call.
     */
    struct gf_hold hold;
    size_t alone; /* bytes that the caller copied alone; then the copy's duration is not compared */
    CUstream rest; /* the ring's stream, if DMAs were issued on it, else NULL */
};

/*
 * Whether the driver's call does not wait for earlier work of the stream. That work may wait for what
 * the calling thread does next.
 */
static inline bool gf_never_waits(const struct gf_copy_call *call, bool to_host)
{
    return call->async && !to_host && call->bytes <= GF_TUNE_ASYNC_NOWAIT;
}

struct gf_pipeline {
    struct gf_pieces job; /* the first member: a piece casts its job to the pipeline */
    struct gf_ring *ring;
    struct gf_pool *pool;
    char *host; /* the program's memory */
    bool to_host;
    size_t bytes;
    CUstream stream; /* the stream for the next DMA: the call's stream or the ring's stream */
    bool has_moved;  /* the DMAs moved to the ring's stream, behind earlier ones */
    unsigned captures;
    const struct gf_hold *hold;
    struct gf_plan plan;
    unsigned slots;
    struct gf_slot *slot[GF_TUNE_SLOTS];
    bool recorded[GF_TUNE_SLOTS]; /* whether the slot's event was recorded after the slot's DMA */
    struct gf_populate populate;
    /*
     * Identifies the thread that called the copy, if the program handles page faults itself; else
     * NULL.
     */
    const char *guarded;
    uint64_t unreadable; /* the first chunk that cannot be populated */
    /* For each slot, the number of pieces of its chunk that are not copied yet. */
    _Atomic uint32_t pieces_left[GF_TUNE_SLOTS];
};

/*
 * Begins a copy in chunks: acquires as many of the planned slots
 * as are free. False: too few slots are free.
 */
bool gf_pipeline_open_chunks(struct gf_pipeline *ret, const struct gf_stage_request *request,
                             bool to_host);
/*
 * Begins a copy to the device in one chunk: acquires one slot of its size. False: no such slot is
 * free.
 */
bool gf_pipeline_open_whole(struct gf_pipeline *ret, const struct gf_stage_request *request);

/* The length of a chunk in bytes. */
size_t gf_pipeline_length(const struct gf_pipeline *pipeline, uint64_t chunk);

static inline unsigned gf_pipeline_slot(const struct gf_pipeline *pipeline, uint64_t chunk)
{
    return (unsigned)(chunk % pipeline->slots);
}

/*
 * Copies the one chunk of gf_pipeline_open_whole into the ring. False: helpers could not access a part
 * of it.
 */
bool gf_pipeline_read_whole(struct gf_pipeline *pipeline);

/*
 * Opens the job of a copy in chunks, and wakes as many helpers as the whole copy needs. Allows the
 * pieces of the first `chunks` chunks to be copied. Returns the number of chunks that it allowed,
 * which is smaller if a chunk cannot be populated.
 */
uint64_t gf_pipeline_start(struct gf_pipeline *pipeline, uint64_t chunks);
/*
 * Allows the pieces of the next chunk to be copied. The caller has found that no DMA uses the
 * chunk's slot any more. False: the chunk cannot be populated.
 */
bool gf_pipeline_allow(struct gf_pipeline *pipeline, uint64_t chunk);
/* Whether every piece of the chunk has been copied. */
bool gf_pipeline_is_copied(const struct gf_pipeline *pipeline, uint64_t chunk);
/*
 * The number of chunks that can be copied: all chunks before the first one that could not be
 * populated or copied.
 */
uint64_t gf_pipeline_end(const struct gf_pipeline *pipeline);

/*
 * Copies a chunk on the calling thread, after the job was closed because helpers could not access the
 * memory. If the program handles faults, its handler runs, and finds neither the driver's lock of the
 * stream nor an open job.
 */
void gf_pipeline_copy_alone(struct gf_pipeline *pipeline, uint64_t chunk);

/*
 * After this call, DMAs are issued on the ring's stream, which is never captured. The copy keeps
 * its order with other work on the call's stream only if it found that stream idle, and if its call
 * returns after its last DMA has ended.
 */
void gf_pipeline_move(struct gf_pipeline *pipeline);
/*
 * Issues the DMA of a chunk, then records its slot's event. If the call's stream is being captured,
 * or the hold is lost, a copy that has issued a DMA moves to the ring's stream, and any other copy
 * issues nothing. Returns the result of the DMA. Sets *ret_broken if the event could not be recorded; then
 * the slot is abandoned.
 */
CUresult gf_pipeline_issue(struct gf_pipeline *pipeline, uint64_t chunk,
                           const struct gf_stage_request *request, bool *ret_broken);
/*
 * The reason why a copy was not staged that has issued no DMA. `result`: that of gf_pipeline_issue;
 * `broken`: it has set *ret_broken.
 */
enum gf_bypass gf_pipeline_unstaged(CUresult result, bool broken);
/* The result of the program's call, after the last result of gf_pipeline_issue. */
CUresult gf_pipeline_result(CUresult result);
/*
 * Whether the DMA in the chunk's slot has ended. With `wait`, waits for the DMA. False with
 * *ret_broken set: the event cannot be queried, and the ring is off.
 */
bool gf_pipeline_has_ended(const struct gf_pipeline *pipeline, uint64_t chunk, bool wait,
                           bool *ret_broken);
/*
 * Waits for all DMAs of the first `chunks` chunks. False: `chunks` is 0, or *ret_broken is set,
 * because an event failed and the end of the DMAs is not known.
 */
bool gf_pipeline_await(const struct gf_pipeline *pipeline, uint64_t chunks, bool *ret_broken);

/*
 * Returns the value for gf_stage_result.rest: the ring's stream if DMAs were issued on it, else
 * NULL.
 */
CUstream gf_pipeline_rest(const struct gf_pipeline *pipeline);

/* Releases the slots. `idle`: all DMAs are known to have ended. */
void gf_pipeline_release(struct gf_pipeline *pipeline, bool idle);

/*
 * Waits until the stream has done the work issued to it so far. Holds no memory of the ring while
 * it waits. If limit_ns is not 0, waits for at most this time, and sets *ret_idle to whether the work
 * is done. Sets ret->stream_done_ns, and adds the duration to ret->stream_wait_ns.
 * gf_bypass_capture: the stream is being captured. gf_bypass_failed: a call of the library failed.
 */
enum gf_bypass gf_pipeline_await_stream(const struct gf_stage_request *request, uint64_t limit_ns,
                                        bool *ret_idle, struct gf_stage_result *ret);
/*
 * Called when the copy holds its idle stream. Waits for the earlier work of the legacy stream, which a
 * query of the stream does not include, and which may write the source. Returns the same as
 * gf_pipeline_await_stream.
 */
enum gf_bypass gf_pipeline_await_legacy(const struct gf_stage_request *request,
                                        struct gf_stage_result *ret);
