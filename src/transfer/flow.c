/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/flow.h"

#include "base/clock.h"
#include "transfer/futex.h"
#include "transfer/plant.h"
#include "transfer/streamed.h"

#include <string.h>

static bool copy_piece(struct gf_job *job, uint64_t piece)
{
    struct gf_flow *flow = (struct gf_flow *)job;
    const size_t offset = piece * flow->piece;
    const size_t bytes = gf_min(flow->piece, flow->bytes - offset);
    const uint64_t chunk = offset / flow->chunk;
    const unsigned slot = gf_flow_slot(flow, chunk);
    char *host = flow->host + offset;
    char *ring = flow->slot[slot]->at + (offset - chunk * flow->chunk);

    if (!gf_reach_knows(&flow->reach) && !gf_reach_pages(host, bytes, flow->to_host))
        return false;
    if (flow->to_host)
        memcpy(host, ring, bytes);
    else if (flow->demoted)
        gf_demote_copy(ring, host, bytes);
    else
        gf_stream_copy(ring, host, bytes);
    if (__atomic_sub_fetch(&flow->left[slot], 1, __ATOMIC_ACQ_REL) == 0)
        gf_pool_ring(job);
    return true;
}

/* The power of two that is not above, within bounds that are powers of two. */
static size_t power_within(size_t wish, size_t least, size_t most)
{
    size_t ret = least;
    while (ret * 2 <= wish && ret < most)
        ret *= 2;
    return ret;
}

/* With fewer threads than keep up with the link, what each takes longer for is lost. */
static bool pays_to_demote(const struct gf_flow *flow)
{
    return flow->bytes >= GF_TUNE_DEMOTED && gf_pool_threads(flow->pool) >= GF_TUNE_DEMOTED_THREADS &&
           gf_demote_is_possible();
}

/* Helpers that come to it at most; 0: all there are, which are as many as the program said if it did. */
static unsigned helpers_for(const struct gf_flow *flow)
{
    if (flow->demoted)
        return 0;
    if (flow->bytes < GF_TUNE_SMALL)
        return GF_TUNE_HELPERS_SMALL;
    return gf_setup.options->stage_threads ? 0 : GF_TUNE_HELPERS;
}

/* In a row of chunks the device reads at once what was written; one that stands on a busy stream it reads later. */
static void prepare(struct gf_flow *ret, const struct gf_staging *stage, bool to_host, bool at_once)
{
    memset(ret, 0, sizeof(*ret));
    ret->job.work = copy_piece;
    ret->ring = stage->ring;
    ret->pool = stage->context->pool;
    ret->to_host = to_host;
    ret->host = (char *)(uintptr_t)(to_host ? stage->call->dst : stage->call->src);
    ret->bytes = stage->call->bytes;
    ret->demoted = at_once && !to_host && pays_to_demote(ret);
    ret->job.most = helpers_for(ret);
    ret->barred = UINT64_MAX;
}

/*
 * With all else that can refuse behind it. The pages of a file take as long to bring in as to copy: each
 * thread does it for what it copies, a page table at a time, as two would contend for one's lock.
 */
static void begin(struct gf_flow *flow)
{
    gf_reach_begin(&flow->reach, flow->host, flow->to_host);
    if (flow->to_host || flow->bytes < GF_TUNE_REACH_APART ||
        !gf_reach_is_one_file(&flow->reach, flow->bytes))
        return;
    gf_reach_leave(&flow->reach);
    flow->piece = gf_min(flow->chunk, GF_TUNE_REACH_PIECE);
}

static uint64_t pieces_of(const struct gf_flow *flow, size_t bytes)
{
    return (bytes + flow->piece - 1) / flow->piece;
}

/* Chunks under way at once that a call wishes for, when so many calls share the ring. */
static unsigned slots_for(const struct gf_flow *flow, unsigned calls)
{
    const size_t share = gf_max(GF_TUNE_RING_WINDOW / calls, GF_TUNE_SHARE_LEAST);
    const uint64_t slots = gf_min(flow->chunks, (uint64_t)(share / flow->chunk));
    return (unsigned)gf_min(slots, (uint64_t)GF_TUNE_SLOTS);
}

static size_t piece_for(const struct gf_flow *flow)
{
    return flow->demoted ? GF_TUNE_PIECE_LEAST
                         : power_within(flow->chunk / GF_TUNE_PIECES, GF_TUNE_PIECE_LEAST, flow->chunk);
}

/* Two chunks have room in the least ring. */
static size_t chunk_most(const struct gf_staging *stage, unsigned calls)
{
    const size_t most = calls > GF_TUNE_CROWD ? GF_TUNE_CHUNK_CROWD : GF_TUNE_CHUNK_MOST;
    return power_within(gf_ring_bytes(stage->ring) / 2, GF_TUNE_CHUNK_LEAST, most);
}

/*
 * With fewer it is the driver's, which never waits with an asynchronous copy up to some size: one that has a slot
 * for each chunk does not either, whatever others put on its stream meanwhile.
 */
static unsigned slots_least(const struct gf_flow *flow, const struct gf_copy_call *call, unsigned wished)
{
    const bool waits = flow->to_host || !call->async || flow->bytes > GF_TUNE_PUT_ASIDE;
    return waits ? gf_min(wished, 2u) : (unsigned)flow->chunks;
}

bool gf_flow_cut(struct gf_flow *ret, const struct gf_staging *stage, bool to_host)
{
    const unsigned calls = gf_max(__atomic_load_n(&stage->context->running, __ATOMIC_RELAXED), 1u);
    const size_t most = chunk_most(stage, calls);

    prepare(ret, stage, to_host, true);
    ret->chunk = power_within(ret->bytes / GF_TUNE_CHUNKS, GF_TUNE_CHUNK_LEAST, most);
    ret->piece = piece_for(ret);
    ret->chunks = (ret->bytes + ret->chunk - 1) / ret->chunk;
    const unsigned wished = slots_for(ret, calls);
    while (ret->slots < wished &&
           (ret->slot[ret->slots] = gf_block_take(ret->ring, gf_min(ret->chunk, ret->bytes))))
        ret->slots++;
    if (ret->slots < wished || to_host)
        gf_ring_want_more(ret->ring);
    if (ret->slots >= slots_least(ret, stage->call, wished)) {
        begin(ret);
        return true;
    }
    gf_flow_release(ret, true);
    return false;
}

bool gf_flow_whole(struct gf_flow *ret, const struct gf_staging *stage)
{
    prepare(ret, stage, false, false);
    ret->slot[0] = gf_block_take(ret->ring, ret->bytes);
    if (!ret->slot[0])
        return false;
    ret->slots = 1;
    ret->chunk = ret->bytes;
    ret->chunks = 1;
    ret->piece = power_within(ret->bytes / GF_TUNE_CHUNKS / GF_TUNE_PIECES, GF_TUNE_PIECE_LEAST,
                              GF_TUNE_CHUNK_MOST / GF_TUNE_PIECES);
    begin(ret);
    return true;
}

size_t gf_flow_length(const struct gf_flow *flow, uint64_t chunk)
{
    return gf_min(flow->chunk, flow->bytes - chunk * flow->chunk);
}

/* Before the pieces of a chunk may be copied; false: it cannot be touched, and the flow ends there. */
static bool reach(struct gf_flow *flow, uint64_t chunk)
{
    const size_t offset = chunk * flow->chunk;
    if (!gf_reach_knows(&flow->reach) ||
        gf_reach_to(&flow->reach, flow->host + offset + gf_flow_length(flow, chunk)))
        return true;
    flow->barred = chunk;
    return false;
}

/* A slot for a chunk whose pieces may be copied from now on,... */
static void ready(struct gf_flow *flow, uint64_t chunk)
{
    __atomic_store_n(&flow->left[gf_flow_slot(flow, chunk)],
                     (uint32_t)pieces_of(flow, gf_flow_length(flow, chunk)), __ATOMIC_RELEASE);
}

/* ...and how many pieces that allows. */
static uint64_t limit_of(const struct gf_flow *flow, uint64_t chunks)
{
    return chunks >= flow->chunks ? pieces_of(flow, flow->bytes)
                                  : chunks * (flow->chunk / flow->piece);
}

bool gf_flow_read_whole(struct gf_flow *flow)
{
    const uint64_t pieces = limit_of(flow, 1);
    uint64_t reached = gf_reach_knows(&flow->reach) ? 0 : pieces;

    ready(flow, 0);
    flow->job.total = pieces;
    gf_pool_open(flow->pool, &flow->job, reached);
    while (reached < pieces && flow->barred != 0) {
        reached += reached && !flow->reach.file ? pieces : GF_TUNE_REACH / flow->piece;
        reached = gf_min(reached, pieces);
        if (gf_reach_to(&flow->reach, flow->host + gf_min(reached * flow->piece, flow->bytes)))
            gf_pool_raise(flow->pool, &flow->job, reached);
        else
            flow->barred = 0;
    }
    while (flow->barred != 0 && gf_pool_help(&flow->job))
        ;
    return gf_pool_close(flow->pool, &flow->job) == GF_PIECE_NONE && flow->barred != 0;
}

uint64_t gf_flow_open(struct gf_flow *flow, uint64_t chunks)
{
    uint64_t open = 0;

    flow->job.total = limit_of(flow, flow->chunks);
    gf_pool_open(flow->pool, &flow->job, 0);
    while (open < chunks && reach(flow, open)) {
        ready(flow, open++);
        if (flow->reach.file) /* its pages take their time: helpers begin with what is there */
            gf_pool_raise(flow->pool, &flow->job, limit_of(flow, open));
    }
    gf_pool_raise(flow->pool, &flow->job, limit_of(flow, open));
    return open;
}

bool gf_flow_allow(struct gf_flow *flow, uint64_t chunk)
{
    if (!reach(flow, chunk))
        return false;
    ready(flow, chunk);
    gf_pool_raise(flow->pool, &flow->job, limit_of(flow, chunk + 1));
    return true;
}

bool gf_flow_is_copied(const struct gf_flow *flow, uint64_t chunk)
{
    return __atomic_load_n(&flow->left[gf_flow_slot(flow, chunk)], __ATOMIC_ACQUIRE) == 0;
}

uint64_t gf_flow_end(const struct gf_flow *flow)
{
    const uint64_t failed = __atomic_load_n(&flow->job.failed, __ATOMIC_ACQUIRE);
    const uint64_t end =
        failed == GF_PIECE_NONE ? flow->chunks : failed * flow->piece / flow->chunk;
    return gf_min(end, flow->barred);
}

bool gf_flow_mark(struct gf_flow *flow, uint64_t chunk, CUstream stream)
{
    const unsigned slot = gf_flow_slot(flow, chunk);
    const CUresult result = gf_block_mark(flow->slot[slot], stream);
    flow->marked[slot] = result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        return true;
    gf_ring_turn_off(flow->ring, "cuEventRecord", result);
    gf_block_lose(flow->slot[slot]);
    flow->slot[slot] = NULL;
    return false;
}

bool gf_flow_has_ended(const struct gf_flow *flow, uint64_t chunk, bool wait, bool *ret_broken)
{
    const struct gf_block *block = flow->slot[gf_flow_slot(flow, chunk)];
    const CUresult result = wait ? gf_block_wait(block) : gf_block_query(block);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        gf_ring_turn_off(flow->ring, wait ? "cuEventSynchronize" : "cuEventQuery", result);
        *ret_broken = true;
    }
    return result == CUDA_SUCCESS;
}

void gf_flow_release(struct gf_flow *flow, bool idle)
{
    for (unsigned i = 0; i < flow->slots; i++) {
        if (!flow->slot[i])
            continue;
        if (idle || !flow->marked[i])
            gf_block_give(flow->ring, flow->slot[i]);
        else
            gf_block_let_go(flow->slot[i]);
    }
}

/* An event of a stream that has nothing to do takes a moment, too. */
static CUresult look(const struct gf_block *block, bool *ret_idle)
{
    const uint64_t until = gf_now_ns() + GF_TUNE_IDLE_NS;
    CUresult result;
    do {
        result = gf_block_query(block);
        *ret_idle = result == CUDA_SUCCESS;
        gf_relax();
    } while (result == CUDA_ERROR_NOT_READY && gf_now_ns() < until);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult gf_flow_await(const struct gf_staging *stage, bool *ret_idle)
{
    struct gf_block *block = gf_block_take(stage->ring, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const char *call = "cuEventRecord";
    CUresult result = gf_block_mark(block, stage->call->stream);
    if (result == CUDA_SUCCESS) {
        call = ret_idle ? "cuEventQuery" : "cuEventSynchronize";
        result = ret_idle ? look(block, ret_idle) : gf_block_wait(block);
    }
    if (result != CUDA_SUCCESS)
        gf_ring_turn_off(stage->ring, call, result);
    gf_block_give(stage->ring, block); /* its event guards no memory */
    *stage->since_ns = gf_now_ns();
    return result;
}
