/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/questions.h"

#include "abi/trace_api.h"
#include "base/atomic.h"
#include "base/log.h"

/*
 * One sample makes at most this many queries. With 33 queries for each sample, a thread with 32
 * streams becomes 3 to 6 % slower (bench/NOTES.md).
 */
#define QUESTIONS 16u
/* One sample clears the records of submitted work of at most this many idle streams. */
#define CLEARED 128u

struct round {
    const struct gf_cuda *cuda;
    struct gf_submit_table *table;
    struct gf_answers *ret;
    struct {
        _Atomic unsigned *work;
        unsigned was;
    } cleared[CLEARED];
    unsigned cleared_count;
    /* The contexts of the table, each with its device and whether its legacy stream has work. */
    struct asked {
        struct gf_submit_context *entry;
        uintptr_t handle;
        int device;
        bool busy;
        bool explained; /* a blocking stream of the table is busy, so the legacy stream is, too */
    } context[GF_SUBMIT_CONTEXTS];
    unsigned contexts;
};

/*
 * For each device, the number of the slot whose stream was busy last. This slot is queried first.
 */
static unsigned last_busy[GF_SUBMIT_DEVICES];

/* Sums the counter `member` of all submitters. */
#define SUM(table, member)                                                                         \
    ({                                                                                             \
        uint64_t sum = 0;                                                                          \
        for (unsigned s = 0; s < GF_SUBMITTERS; s++)                                               \
            sum += gf_load_acquire(&(table)->submitters[s].member);                                \
        sum;                                                                                       \
    })

/*
 * Counts the calls that have ended, then the calls that have begun. If both sums are equal, no call
 * was running at the time between the two counts.
 */
static void read_counts(const struct gf_submit_table *table, struct gf_answers *ret)
{
    const uint64_t ended = SUM(table, ended);

    ret->begun = SUM(table, begun);
    ret->settled = ended == ret->begun;
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        ret->unlisted += gf_load_relaxed(&table->submitters[i].unlisted);
}

/* A query met a capture that the hooks did not count. So another query may end the next one. */
static bool has_met_capture;

static bool may_ask(const struct gf_submit_table *table)
{
    return !has_met_capture && !gf_load_seq_cst(&table->closed) &&
           !gf_load_seq_cst(&table->captures);
}

/*
 * Adds the record of work of an idle stream to a list. clear_seen clears the listed records if
 * nothing was submitted during the round.
 */
static void seen_empty(struct round *round, _Atomic unsigned *work)
{
    if (round->ret->settled && round->cleared_count < CLEARED && gf_load_relaxed(work))
        round->cleared[round->cleared_count++].work = work;
}

/*
 * Clears the listed records. This is a Dekker-style handshake with gf_submit_end: this thread
 * clears a record, then reads how many calls have begun. A hook counts its call as begun, and reads
 * the record after the driver's call. Because of the fences on both sides, at least one of the two
 * threads sees the other's store. If a call has begun, the records are restored.
 */
static void clear_seen(struct round *round)
{
    for (unsigned i = 0; i < round->cleared_count; i++)
        round->cleared[i].was = gf_exchange_seq_cst(round->cleared[i].work, 0);
    gf_fence_seq_cst();
    if (SUM(round->table, begun) == round->ret->begun)
        return;
    for (unsigned i = 0; i < round->cleared_count; i++)
        atomic_fetch_or(round->cleared[i].work, round->cleared[i].was);
}

/*
 * Called between queries: the program waits for the end of a query, and a write to standard error
 * may block.
 */
static void tell_of_captures(void)
{
    static bool told;

    if (!has_met_capture || told)
        return;
    told = true;
    gf_info("the GPU's time is not sampled any more, because the program captures streams by "
            "calls that the library does not see");
}

/* A query of a stream with a slot, or of the context's legacy stream. */
struct question {
    struct gf_submit_context *entry;
    uintptr_t context;
    struct gf_stream_slot *slot; /* NULL: the legacy stream */
    uintptr_t stream;
};

/* A handle may be that of a later stream, so the context is compared, too. */
static bool is_listed(const struct question *question)
{
    return gf_load_seq_cst(&question->entry->context) == question->context &&
           (!question->slot || gf_load_seq_cst(&question->slot->stream) == question->stream);
}

static CUresult query_driver(const struct gf_cuda *cuda, const struct question *question)
{
    CUresult result = cuda->cuCtxSetCurrent((CUcontext)question->context);

    if (result == CUDA_SUCCESS) {
        result = cuda->cuStreamQuery((CUstream)question->stream);
        cuda->cuCtxSetCurrent(NULL); /* the context may end before the next query */
    }
    return result;
}

/*
 * Makes one query, for which a hook may wait. Returns CUDA_ERROR_INVALID_HANDLE without a query if
 * the stream or the context has ended since it was found in the table.
 */
static CUresult query_in(struct round *round, const struct question *question)
{
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

    gf_store_seq_cst(&round->table->asking, question->slot ? question->stream : question->context);
    if (!is_listed(question)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (may_ask(round->table)) {
        struct gf_visible *const visible = question->slot ? &question->slot->visible : NULL;
        const uint32_t made = visible ? gf_load_acquire(&visible->made) : 0;
        round->ret->questions++;
        result = query_driver(round->cuda, question);
        if (visible && result == CUDA_SUCCESS) /* later copies need not wait for these results */
            gf_store_release(&visible->seen, made);
        if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_CAPTURED_EVENT)
            has_met_capture = true;
        round->ret->refused += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    }
    gf_store_seq_cst(&round->table->asking, 0);
    return result;
}

/*
 * Queries the context's legacy stream. If it is idle, the context's blocking and per-thread streams
 * are idle, too.
 */
static void ask_context(struct round *round, struct gf_submit_context *entry, uintptr_t handle)
{
    const int device = gf_load_relaxed(&entry->device);
    struct gf_answer *answer = &round->ret->device[device];
    const struct question question = {entry, handle, NULL, (uintptr_t)CU_STREAM_LEGACY};
    const CUresult result = query_in(round, &question);

    if (result == CUDA_ERROR_INVALID_HANDLE)
        return;
    answer->has_context = true;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        answer->failed = true;
    round->context[round->contexts++] = (struct asked){
        .entry = entry, .handle = handle, .device = device, .busy = result != CUDA_SUCCESS};
}

static void ask_contexts(struct round *round)
{
    for (unsigned i = 0; i < GF_SUBMIT_CONTEXTS; i++) {
        struct gf_submit_context *entry = &round->table->contexts[i];
        const uintptr_t handle = gf_load_acquire(&entry->context);
        if (handle > GF_SUBMIT_FILLING)
            ask_context(round, entry, handle);
    }
}

/* Returns the index of the context in round->context; -1 if not found. */
static int find_context(const struct round *round, uintptr_t handle)
{
    for (unsigned i = 0; i < round->contexts; i++)
        if (round->context[i].handle == handle)
            return (int)i;
    return -1;
}

/*
 * Queries the slot's stream, except in three cases: the stream got no work; it is a blocking
 * stream, and the legacy stream is idle; or unfinished kernels on another stream already decide the
 * device's state, and NCCL did not use this stream.
 */
static void ask_slot(struct round *round, unsigned number)
{
    struct gf_stream_slot *slot = &round->table->slots[number];
    const uintptr_t stream = gf_load_acquire(&slot->stream);
    const unsigned work = gf_load_relaxed(&slot->work);
    const int at = find_context(round, gf_load_relaxed(&slot->context));

    if (stream <= GF_SUBMIT_FILLING || !work || at < 0)
        return;
    struct gf_answer *answer = &round->ret->device[round->context[at].device];
    if (gf_load_relaxed(&slot->blocking) && !round->context[at].busy) {
        seen_empty(round, &slot->work);
        return;
    }
    if (((answer->work & gf_work_kernel) && !(work & gf_work_comm)) || answer->failed)
        return;
    if (round->ret->questions >= QUESTIONS) {
        answer->failed = true;
        return;
    }
    const struct question question = {round->context[at].entry, round->context[at].handle, slot,
                                      stream};
    const CUresult result = query_in(round, &question);
    if (result == CUDA_ERROR_NOT_READY) {
        answer->work |= work;
        round->context[at].explained |= gf_load_relaxed(&slot->blocking);
        last_busy[round->context[at].device] = number;
    } else if (result == CUDA_SUCCESS) {
        seen_empty(round, &slot->work);
    } else if (result != CUDA_ERROR_INVALID_HANDLE) {
        answer->failed = true;
    }
}

static void ask_slots(struct round *round)
{
    for (unsigned i = 0; i < round->contexts; i++)
        ask_slot(round, last_busy[round->context[i].device]);
    for (unsigned word = 0; word < GF_STREAM_SLOTS / 64; word++) {
        uint64_t bits = gf_load_relaxed(&round->table->listed[word]);
        for (; bits; bits &= bits - 1)
            ask_slot(round, word * 64 + (unsigned)__builtin_ctzll(bits));
    }
}

/*
 * Returns the kind of work if the legacy stream is busy, but no blocking stream of the table. Then the
 * work was submitted to the legacy stream itself, to a per-thread stream, or by a call without a
 * hook.
 */
static unsigned work_of_legacy(const struct gf_submit_table *table)
{
    unsigned work = gf_load_relaxed(&table->legacy_work);
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        work |= gf_load_relaxed(&table->submitters[i].own_work);
    return work ? work : gf_work_kernel;
}

static void judge_legacy(struct round *round)
{
    bool busy = false;

    for (unsigned i = 0; i < round->contexts; i++) {
        struct gf_answer *answer = &round->ret->device[round->context[i].device];
        busy |= round->context[i].busy;
        if (round->context[i].busy && !round->context[i].explained &&
            !(answer->work & gf_work_kernel) && !answer->failed)
            answer->work |= work_of_legacy(round->table);
    }
    if (busy)
        return;
    seen_empty(round, &round->table->legacy_work);
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        seen_empty(round, &round->table->submitters[i].own_work);
}

/*
 * Finds whether a thread is inside a blocking copy. Such a copy may use the library's own streams,
 * which have no slot and are not queried, so the devices then count as copying.
 */
static void find_copies(struct round *round)
{
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        if (gf_load_relaxed(&round->table->submitters[i].doing) == 1 + gf_timed_driver_copy)
            for (unsigned c = 0; c < round->contexts; c++)
                round->ret->device[round->context[c].device].copies = true;
}

void gf_questions_ask(const struct gf_cuda *cuda, struct gf_submit_table *table,
                      struct gf_answers *ret)
{
    static struct round round; /* static, because only one thread calls this function */

    memset(ret, 0, sizeof(*ret));
    round.cuda = cuda;
    round.table = table;
    round.ret = ret;
    round.cleared_count = round.contexts = 0;
    read_counts(table, ret);
    ret->asked = may_ask(table);
    if (!ret->asked)
        return;
    ask_contexts(&round);
    ask_slots(&round);
    tell_of_captures();
    judge_legacy(&round);
    find_copies(&round);
    clear_seen(&round);
}

bool gf_questions_possible(const struct gf_cuda *cuda)
{
    return cuda->cuStreamQuery && cuda->cuCtxSetCurrent && cuda->cuCtxGetCurrent &&
           cuda->cuCtxGetDevice && cuda->cuThreadExchangeStreamCaptureMode;
}
