/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/pipeline.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/host_copy.h"
#include "engine/transfer/pieces.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"

/* The result of gf_pipeline_issue if the driver must copy the rest. */
#define LOST CUDA_ERROR_NOT_READY

static __thread char here; /* its address identifies a thread */

/*
 * Copies on a helper in a program that handles faults, where only the thread that called the copy
 * may cause a fault.
 */
static bool copy_guarded(const struct gf_pipeline *pipeline, char *ring, char *host, size_t bytes)
{
    return pipeline->to_host
               ? gf_program_write(host, ring, bytes)
               : gf_program_read(ring, host, bytes,
                                 pipeline->plan.demoted ? gf_cldemote_copy : gf_nt_copy);
}

static bool copy_bytes(const struct gf_pipeline *pipeline, char *ring, char *host, size_t bytes)
{
    if (gf_unlikely(pipeline->guarded && pipeline->guarded != &here))
        return copy_guarded(pipeline, ring, host, bytes);
    if (pipeline->to_host)
        memcpy(host, ring, bytes);
    else if (pipeline->plan.demoted)
        gf_cldemote_copy(ring, host, bytes);
    else
        gf_nt_copy(ring, host, bytes);
    return true;
}

static bool copy_piece(struct gf_pieces *job, uint64_t piece)
{
    struct gf_pipeline *pipeline = (struct gf_pipeline *)job;
    const struct gf_plan *plan = &pipeline->plan;
    const size_t offset = gf_plan_piece_offset(plan, piece);
    const size_t bytes = gf_min(gf_plan_piece_offset(plan, piece + 1), pipeline->bytes) - offset;
    const uint64_t chunk = piece * plan->piece / plan->chunk;
    const unsigned slot = gf_pipeline_slot(pipeline, chunk);
    char *host = pipeline->host + offset;
    char *ring = pipeline->slot[slot]->at + (offset - gf_plan_chunk_offset(plan, chunk));

    if (!pipeline->populate.has_vmas && !gf_populate_pages(host, bytes, pipeline->to_host))
        return false;
    if (!copy_bytes(pipeline, ring, host, bytes))
        return false;
    gf_hold_progress(pipeline->hold);
    if (gf_sub_acq_rel(&pipeline->pieces_left[slot], 1) == 1)
        gf_pieces_notify(job);
    return true;
}

/* Opening. */

/*
 * Returns the destination if most of its pages are absent, else 0. Pages are not sampled for small
 * copies: their pieces do not depend on absent pages, and the calls of mincore would take 5 % of
 * the time of a copy of 1 MiB.
 */
static uintptr_t absent_destination(const struct gf_copy_call *call)
{
    const bool absent = call->bytes >= GF_TUNE_UNITS_LEAST &&
                        gf_absent_mostly((uintptr_t)call->dst, call->bytes, GF_TUNE_UNITS_SAMPLES);
    return absent ? (uintptr_t)call->dst : 0;
}

static void init_pipeline(struct gf_pipeline *ret, const struct gf_stage_request *request,
                          bool to_host, struct gf_plan_facts *ret_facts)
{
    const struct gf_copy_call *call = request->call;

    memset(ret, 0, sizeof(*ret));
    ret->job.work = copy_piece;
    ret->ring = request->ring;
    ret->pool = request->context->pool;
    ret->to_host = to_host;
    ret->host = (char *)(uintptr_t)(to_host ? call->dst : call->src);
    ret->bytes = call->bytes;
    ret->stream = call->stream;
    ret->captures = request->captures;
    ret->hold = request->hold;
    ret->guarded = gf_faults_are_handled() ? &here : NULL;
    ret->unreadable = UINT64_MAX;
    *ret_facts = (struct gf_plan_facts){
        .bytes = call->bytes,
        .to_host = to_host,
        .async = call->async,
        .can_demote = gf_cldemote_is_possible(),
        .threads_by_option = gf_setup.options->stage_threads != 0,
        .threads = gf_pool_threads(ret->pool),
        .callers = gf_max(gf_context_calls(request->context), 1u),
        .ring_bytes = gf_ring_bytes(request->ring),
        .absent = to_host ? absent_destination(call) : 0,
    };
}

/*
 * Whether a helper that populates a file's pages would read them as the caller would: with the same
 * I/O priority and memory policy.
 */
static bool helpers_may_populate(void)
{
    const int io_priority = gf_io_priority_get();

    return (io_priority == GF_IO_PRIORITY_UNKNOWN || gf_io_priority_is_ordinary(io_priority)) &&
           !gf_range_policy_is_users();
}

/*
 * In a large copy from a mapped file, each piece is populated by the thread that copies it, because
 * populating takes as long as copying. A piece is as large as the memory that one page table maps,
 * so that threads seldom contend for the lock of a page table.
 */
static void init_populate(struct gf_pipeline *pipeline)
{
    gf_populate_init(&pipeline->populate, pipeline->host, pipeline->to_host);
    if (pipeline->to_host || pipeline->bytes < GF_TUNE_POPULATE_APART ||
        !gf_populate_is_one_file(&pipeline->populate, pipeline->bytes) || !helpers_may_populate())
        return;
    pipeline->populate.has_vmas = false;
    pipeline->plan.piece = gf_min(pipeline->plan.chunk, GF_TUNE_POPULATE_PIECE);
}

static void acquire_slots(struct gf_pipeline *pipeline)
{
    const struct gf_plan *plan = &pipeline->plan;
    struct gf_slot *slot;

    while (pipeline->slots < plan->slots &&
           (slot = gf_slot_acquire(pipeline->ring, gf_min(plan->chunk, pipeline->bytes))))
        pipeline->slot[pipeline->slots++] = slot;
}

/* Waits until other copies release slots. Holds no slot while it waits. */
static void await_slots(struct gf_pipeline *pipeline)
{
    const uint64_t since = gf_now_ns();

    while (pipeline->slots < pipeline->plan.slots_least) {
        gf_pipeline_release(pipeline, true);
        pipeline->slots = 0;
        if (!gf_ring_await_others(pipeline->bytes, since))
            break;
        acquire_slots(pipeline);
    }
    gf_ring_waited(pipeline->ring, pipeline->slots >= pipeline->plan.slots_least);
}

/*
 * The last step of opening a pipeline. Populating is prepared only here, after all steps that can
 * fail.
 */
static bool open_pipeline(struct gf_pipeline *pipeline)
{
    if (pipeline->slots < pipeline->plan.slots_least) {
        gf_pipeline_release(pipeline, true);
        return false;
    }
    pipeline->job.max_helpers = pipeline->plan.helpers;
    init_populate(pipeline);
    return true;
}

bool gf_pipeline_open_chunks(struct gf_pipeline *ret, const struct gf_stage_request *request,
                             bool to_host)
{
    struct gf_plan_facts facts;

    init_pipeline(ret, request, to_host, &facts);
    gf_plan_chunks(&facts, &ret->plan);
    acquire_slots(ret);
    if (ret->slots < ret->plan.slots || to_host)
        gf_ring_want_more(ret->ring);
    if (ret->slots < ret->plan.slots_least && gf_ring_is_patient(ret->ring, ret->bytes))
        await_slots(ret);
    return open_pipeline(ret);
}

bool gf_pipeline_open_whole(struct gf_pipeline *ret, const struct gf_stage_request *request)
{
    struct gf_plan_facts facts;

    init_pipeline(ret, request, false, &facts);
    gf_plan_whole(&facts, &ret->plan);
    acquire_slots(ret);
    return open_pipeline(ret);
}

/* Chunks and their pieces. */

size_t gf_pipeline_length(const struct gf_pipeline *pipeline, uint64_t chunk)
{
    const struct gf_plan *plan = &pipeline->plan;
    return gf_min(gf_plan_chunk_offset(plan, chunk + 1), pipeline->bytes) -
           gf_plan_chunk_offset(plan, chunk);
}

static uint64_t pieces_of(const struct gf_pipeline *pipeline, size_t bytes)
{
    return (bytes + pipeline->plan.piece - 1) / pipeline->plan.piece;
}

/* The number of pieces in the first `chunks` chunks. */
static uint64_t pieces_up_to(const struct gf_pipeline *pipeline, uint64_t chunks)
{
    return chunks >= pipeline->plan.chunks
               ? pieces_of(pipeline, pipeline->plan.lead + pipeline->bytes)
               : chunks * (pipeline->plan.chunk / pipeline->plan.piece);
}

/*
 * Populates the next chunk, unless each thread populates its own pieces. False: the chunk cannot be
 * populated, and the copy ends before this chunk.
 */
static bool populate_chunk(struct gf_pipeline *pipeline, uint64_t chunk)
{
    const size_t offset = gf_plan_chunk_offset(&pipeline->plan, chunk);
    if (pipeline->populate.has_vmas &&
        !gf_populate_to(&pipeline->populate,
                        pipeline->host + offset + gf_pipeline_length(pipeline, chunk)))
        pipeline->unreadable = chunk;
    if (pipeline->populate.file)
        gf_hold_reads_file(pipeline->hold);
    return pipeline->unreadable != chunk;
}

/*
 * Sets the number of pieces of a chunk that are to be copied. Called before these pieces may be
 * claimed.
 */
static void count_pieces(struct gf_pipeline *pipeline, uint64_t chunk)
{
    gf_store_release(&pipeline->pieces_left[gf_pipeline_slot(pipeline, chunk)],
                     (uint32_t)pieces_of(pipeline, gf_pipeline_length(pipeline, chunk)));
}

bool gf_pipeline_read_whole(struct gf_pipeline *pipeline)
{
    const uint64_t pieces = pieces_up_to(pipeline, 1);
    const size_t piece = pipeline->plan.piece;
    uint64_t allowed = pipeline->populate.has_vmas ? 0 : pieces;

    count_pieces(pipeline, 0);
    pipeline->job.total = pieces;
    gf_pool_open(pipeline->pool, &pipeline->job, allowed);
    while (allowed < pieces && pipeline->unreadable != 0) {
        allowed += allowed && !pipeline->populate.file ? pieces : GF_TUNE_POPULATE_STEP / piece;
        allowed = gf_min(allowed, pieces);
        if (gf_populate_to(&pipeline->populate,
                           pipeline->host + gf_min(allowed * piece, pipeline->bytes)))
            gf_pool_raise(pipeline->pool, &pipeline->job, allowed);
        else
            pipeline->unreadable = 0;
    }
    while (pipeline->unreadable != 0 && gf_pieces_help(&pipeline->job))
        continue;
    return gf_pool_close(pipeline->pool, &pipeline->job) == GF_PIECE_NONE &&
           pipeline->unreadable != 0;
}

void gf_pipeline_copy_alone(struct gf_pipeline *pipeline, uint64_t chunk)
{
    copy_bytes(pipeline, pipeline->slot[gf_pipeline_slot(pipeline, chunk)]->at,
               pipeline->host + gf_plan_chunk_offset(&pipeline->plan, chunk),
               gf_pipeline_length(pipeline, chunk));
}

uint64_t gf_pipeline_start(struct gf_pipeline *pipeline, uint64_t chunks)
{
    uint64_t allowed = 0;

    pipeline->job.total = pieces_up_to(pipeline, pipeline->plan.chunks);
    gf_pool_open(pipeline->pool, &pipeline->job, 0);
    while (allowed < chunks && populate_chunk(pipeline, allowed)) {
        count_pieces(pipeline, allowed++);
        /*
         * Populating pages of a file takes long. So helpers may copy each chunk as soon as it is
         * populated.
         */
        if (pipeline->populate.file)
            gf_pool_raise(pipeline->pool, &pipeline->job, pieces_up_to(pipeline, allowed));
    }
    gf_pool_raise(pipeline->pool, &pipeline->job, pieces_up_to(pipeline, allowed));
    return allowed;
}

bool gf_pipeline_allow(struct gf_pipeline *pipeline, uint64_t chunk)
{
    if (!populate_chunk(pipeline, chunk))
        return false;
    count_pieces(pipeline, chunk);
    gf_pool_raise(pipeline->pool, &pipeline->job, pieces_up_to(pipeline, chunk + 1));
    return true;
}

bool gf_pipeline_is_copied(const struct gf_pipeline *pipeline, uint64_t chunk)
{
    return gf_load_acquire(&pipeline->pieces_left[gf_pipeline_slot(pipeline, chunk)]) == 0;
}

uint64_t gf_pipeline_end(const struct gf_pipeline *pipeline)
{
    const uint64_t failed = gf_pieces_failed(&pipeline->job);
    const uint64_t end = failed == GF_PIECE_NONE
                             ? pipeline->plan.chunks
                             : failed * pipeline->plan.piece / pipeline->plan.chunk;
    return gf_min(end, pipeline->unreadable);
}

/* Events. */

/*
 * Records the slot's event after the DMA of the chunk. False: recording failed, and the slot is
 * abandoned.
 */
static bool record_slot(struct gf_pipeline *pipeline, uint64_t chunk)
{
    const unsigned slot = gf_pipeline_slot(pipeline, chunk);
    const CUresult result =
        gf_setup.cuda->cuEventRecord(pipeline->slot[slot]->event, pipeline->stream);
    pipeline->recorded[slot] = result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return true;
    gf_ring_turn_off(pipeline->ring, "cuEventRecord", result);
    gf_slot_abandon(pipeline->ring, pipeline->slot[slot]);
    pipeline->slot[slot] = NULL;
    return false;
}

static bool is_on_ring(const struct gf_pipeline *pipeline)
{
    return pipeline->stream == gf_ring_stream(pipeline->ring);
}

void gf_pipeline_move(struct gf_pipeline *pipeline)
{
    pipeline->stream = gf_ring_stream(pipeline->ring);
}

/*
 * Before the DMAs move to the ring's stream, the earlier ones must have ended: on a blocking stream,
 * they wait for earlier work of the legacy stream, for which the copy has not waited. The ring's
 * stream must not wait for them, because other copies use it, too. The hold may end meanwhile.
 */
static bool await_issued(struct gf_pipeline *pipeline, uint64_t chunk, struct gf_hold *issuing)
{
    bool broken = false;

    gf_hold_issue_end(issuing);
    const bool ret = gf_pipeline_await(pipeline, chunk, &broken);
    gf_hold_issue_begin(pipeline->hold, issuing);
    return ret;
}

/*
 * Chooses the stream of the next DMA. If the call's stream may be captured, or the copy has lost its
 * hold, the DMAs move to the ring's stream. If that is impossible, the driver copies the rest; if the
 * copy has issued nothing yet, the driver copies all.
 */
static CUresult choose_stream(struct gf_pipeline *pipeline, uint64_t chunk, bool is_held,
                              bool is_gated, struct gf_hold *issuing)
{
    const bool begins = chunk == 0;

    if (is_gated || (is_on_ring(pipeline) && (is_held || !begins)))
        return CUDA_SUCCESS;
    if (begins)
        return is_held ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : LOST;
    if (!await_issued(pipeline, chunk, issuing))
        return LOST;
    gf_pipeline_move(pipeline);
    pipeline->has_moved = true;
    return CUDA_SUCCESS;
}

static CUresult issue_dma(const struct gf_stage_request *request,
                          const struct gf_pipeline *pipeline, uint64_t chunk)
{
    const struct gf_copy_call *const call = request->call;
    const size_t at = gf_plan_chunk_offset(&pipeline->plan, chunk);
    const size_t bytes = gf_pipeline_length(pipeline, chunk);
    void *const ring = pipeline->slot[gf_pipeline_slot(pipeline, chunk)]->at;

    return pipeline->to_host
               ? gf_setup.cuda->cuMemcpyDtoHAsync_v2(ring, call->src + at, bytes, pipeline->stream)
               : gf_setup.cuda->cuMemcpyHtoDAsync_v2(call->dst + at, ring, bytes, pipeline->stream);
}

CUresult gf_pipeline_issue(struct gf_pipeline *pipeline, uint64_t chunk,
                           const struct gf_stage_request *request, bool *ret_broken)
{
    struct gf_hold issuing;
    const bool is_held = gf_hold_issue_begin(pipeline->hold, &issuing);
    /*
     * Such a copy has a slot for each chunk, so no DMA waits for work behind another one. It moves
     * only if another thread destroys its stream.
     */
    const bool stays = gf_never_waits(request->call, pipeline->to_host) && chunk > 0 &&
                       (is_held || gf_hold_uses_stream(request->call->stream));
    const bool is_gated =
        (is_held || stays) && !is_on_ring(pipeline) &&
        (stays ? gf_issue_insist : gf_issue_enter)(pipeline->stream, &pipeline->captures);
    CUresult result = choose_stream(pipeline, chunk, is_held, is_gated, &issuing);

    if (result == CUDA_SUCCESS)
        result = issue_dma(request, pipeline, chunk);
    if (result == CUDA_SUCCESS && !record_slot(pipeline, chunk))
        *ret_broken = true;
    gf_hold_issue_end(&issuing);
    if (is_gated)
        gf_issue_leave();
    return result;
}

CUresult gf_pipeline_result(CUresult result)
{
    return result == LOST ? CUDA_SUCCESS : result;
}

enum gf_bypass gf_pipeline_unstaged(CUresult result, bool broken)
{
    return result == LOST                ? gf_bypass_shared
           : gf_is_capture_error(result) ? gf_bypass_capture
           : result || broken            ? gf_bypass_failed
                                         : gf_bypass_unreadable;
}

bool gf_pipeline_has_ended(const struct gf_pipeline *pipeline, uint64_t chunk, bool wait,
                           bool *ret_broken)
{
    const struct gf_slot *slot = pipeline->slot[gf_pipeline_slot(pipeline, chunk)];

    gf_hold_awaits_dma(pipeline->hold, wait);
    const CUresult result = wait ? gf_slot_wait(slot) : gf_setup.cuda->cuEventQuery(slot->event);
    gf_hold_awaits_dma(pipeline->hold, false);
    if (result == CUDA_SUCCESS)
        gf_hold_progress(pipeline->hold);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        gf_ring_turn_off(pipeline->ring, wait ? "cuEventSynchronize" : "cuEventQuery", result);
        *ret_broken = true;
    }
    return result == CUDA_SUCCESS;
}

bool gf_pipeline_await(const struct gf_pipeline *pipeline, uint64_t chunks, bool *ret_broken)
{
    /*
     * The DMAs of one stream end in order, so waiting for the last one suffices. If DMAs moved to
     * the ring's stream, two streams have DMAs, so this function waits for the last DMA of each
     * slot.
     */
    const uint64_t least = pipeline->has_moved ? pipeline->slots : 1;
    for (uint64_t i = chunks - gf_min(chunks, least); i < chunks; i++)
        if (*ret_broken || !gf_pipeline_has_ended(pipeline, i, true, ret_broken))
            return false;
    return chunks;
}

CUstream gf_pipeline_rest(const struct gf_pipeline *pipeline)
{
    return is_on_ring(pipeline) ? pipeline->stream : NULL;
}

void gf_pipeline_release(struct gf_pipeline *pipeline, bool idle)
{
    for (unsigned i = 0; i < pipeline->slots; i++) {
        if (!pipeline->slot[i])
            continue;
        if (idle || !pipeline->recorded[i])
            gf_slot_release(pipeline->ring, pipeline->slot[i]);
        else
            gf_slot_release_on_event(pipeline->slot[i]);
    }
}

/*
 * Queries the stream for up to limit_ns. Puts nothing on the stream: another thread that queries the
 * stream may take unfinished work for this copy, and submit something that waits for this copy.
 */
static CUresult query_stream(CUstream stream, uint64_t limit_ns, bool *ret_idle)
{
    const uint64_t until = limit_ns ? gf_now_ns() + limit_ns : 0;
    CUresult result = gf_setup.cuda->cuStreamQuery(stream);

    while (result == CUDA_ERROR_NOT_READY && limit_ns && gf_now_ns() < until) {
        gf_relax();
        result = gf_setup.cuda->cuStreamQuery(stream);
    }
    *ret_idle = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

/* Waits for the work that was issued to the stream so far. Holds no memory of the ring. */
static enum gf_bypass await_event(const struct gf_stage_request *request, unsigned *captures,
                                  const char **ret_call, CUresult *ret_result)
{
    struct gf_slot *slot = gf_slot_acquire(request->ring, 0);

    if (!slot)
        return gf_bypass_failed;
    if (!gf_issue_enter(request->call->stream, captures)) {
        gf_slot_release(request->ring, slot);
        return gf_bypass_capture;
    }
    *ret_call = "cuEventRecord";
    *ret_result = gf_setup.cuda->cuEventRecord(slot->event, request->call->stream);
    gf_issue_leave();
    if (*ret_result == CUDA_SUCCESS) {
        *ret_call = "cuEventSynchronize";
        *ret_result = gf_slot_wait(slot);
    }
    gf_slot_release(request->ring, slot);
    return gf_bypass_none;
}

/* Counts the wait that began at `begun`. The arguments are the results of await_event. */
static enum gf_bypass end_wait(const struct gf_stage_request *request, enum gf_bypass reason,
                               const char *call, CUresult result, uint64_t begun,
                               struct gf_stage_result *ret)
{
    if (result != CUDA_SUCCESS)
        gf_ring_turn_off(request->ring, call, result);
    ret->stream_done_ns = gf_now_ns();
    ret->stream_wait_ns += ret->stream_done_ns - begun;
    return reason != gf_bypass_none      ? reason
           : result == CUDA_SUCCESS      ? gf_bypass_none
           : gf_is_capture_error(result) ? gf_bypass_capture
                                         : gf_bypass_failed;
}

enum gf_bypass gf_pipeline_await_legacy(const struct gf_stage_request *request,
                                        struct gf_stage_result *ret)
{
    unsigned captures = request->captures;
    const char *call = NULL;
    CUresult result = CUDA_SUCCESS;
    const uint64_t begun = gf_now_ns();

    gf_hold_awaits_dma(request->hold, true);
    const enum gf_bypass reason = await_event(request, &captures, &call, &result);
    gf_hold_awaits_dma(request->hold, false);
    return end_wait(request, reason, call, result, begun, ret);
}

enum gf_bypass gf_pipeline_await_stream(const struct gf_stage_request *request, uint64_t limit_ns,
                                        bool *ret_idle, struct gf_stage_result *ret)
{
    unsigned captures = request->captures;
    const char *call = "cuStreamQuery";
    enum gf_bypass reason = gf_bypass_none;

    if (!gf_issue_enter(request->call->stream, &captures))
        return gf_bypass_capture;
    const uint64_t begun = gf_now_ns();
    CUresult result = query_stream(request->call->stream, limit_ns, ret_idle);
    gf_issue_leave();
    if (result == CUDA_SUCCESS && !*ret_idle && !limit_ns) {
        reason = await_event(request, &captures, &call, &result);
        *ret_idle = true;
    }
    return end_wait(request, reason, call, result, begun, ret);
}
