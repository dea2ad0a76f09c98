/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/hold.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/pieces.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <time.h>

#define HOLDS 16
#define MARKS 64u /* a power of two; a collision overwrites */
/* For so long a copy waits until another thread has left a call that may use another context. */
#define LEAVE_NS 20000
/* A waiting call spins for SPIN_NS, then sleeps repeatedly. */
#define SPIN_NS 50000
/*
 * If the process is stopped, its quota is used up, or the CPUs are busy, the copying thread does not
 * run either. So the limits count no more than this for each step of a waiting call, twice the time
 * that a step takes on idle CPUs.
 */
#define STEP_NS UINT64_C(200000)

enum { TICKET_NONE, TICKET_FILLING, TICKET_FIRST };
/* A bit of entry.ticket: the copy is issuing a DMA, so its hold cannot be ended now. */
#define TICKET_ISSUES (UINT64_C(1) << 63)

/*
 * A stream that a copy holds. The other members are valid while `ticket` is at least TICKET_FIRST,
 * and has not changed since before they were read.
 */
struct entry {
    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(uintptr_t) stream, context;
    _Atomic(uintptr_t) owner; /* identifies the thread that copies */
    _Atomic pid_t thread;     /* the id of that thread */
    _Atomic bool blocking;    /* the stream and the legacy stream wait for each other */
    _Atomic bool cut, reads_file, awaits_dma, is_batch;
    _Atomic uint32_t progress;
    /* The ticket of a hold that ends with the present DMA, because a thread does not wait. */
    _Atomic uint64_t lost;
};

static struct entry entries[HOLDS];
static _Atomic uint64_t last_ticket = TICKET_FIRST;

static struct {
    _Atomic(uintptr_t) stream, context;
    _Atomic uint64_t until_ns;
} marks[MARKS];

static __thread char here; /* its address identifies a thread */
static __thread struct {
    struct gf_hold hold;
    CUstream stream;
    CUcontext context;
} batch;

/* The hooks' records; NULL in a test of other modules: nothing is held. */
static struct gf_submit_table *records(void)
{
    return gf_setup.submissions;
}

void gf_hold_start(void)
{
    if (records())
        atomic_fetch_or(&records()->on, gf_submit_held);
}

/* Streams that several threads use. */

static unsigned mark_of(CUstream stream, CUcontext context)
{
    const uint64_t key = (uintptr_t)stream * UINT64_C(3) + (uintptr_t)context;
    return (unsigned)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % MARKS;
}

bool gf_hold_is_shared(CUstream stream, CUcontext context)
{
    const unsigned i = mark_of(stream, context);
    return gf_load_relaxed(&marks[i].stream) == (uintptr_t)stream &&
           gf_load_relaxed(&marks[i].context) == (uintptr_t)context &&
           gf_now_ns() < gf_load_relaxed(&marks[i].until_ns);
}

void gf_hold_note_shared(CUstream stream, CUcontext context)
{
    const unsigned i = mark_of(stream, context);
    gf_store_relaxed(&marks[i].stream, (uintptr_t)stream);
    gf_store_relaxed(&marks[i].context, (uintptr_t)context);
    gf_store_relaxed(&marks[i].until_ns, gf_now_ns() + GF_TUNE_SHARED_NS);
}

/* The calls of other threads. */

/* The calling thread's record; NULL if other threads share it. */
static struct gf_submitter *own_record(void)
{
    const unsigned own = records() ? gf_setup.submitter() : GF_SUBMITTERS;
    return own < GF_SUBMITTERS ? &records()->submitters[own] : NULL;
}

bool gf_hold_is_possible(void)
{
    return !records() || own_record();
}

void gf_hold_publish(CUstream stream, CUcontext context)
{
    struct gf_submitter *const own = own_record();

    if (!own)
        return;
    gf_store_relaxed(&own->copy_stream, (uintptr_t)stream);
    gf_store_release(&own->context, (uintptr_t)context);
}

bool gf_hold_uses_stream(CUstream stream)
{
    struct gf_submitter *const own = own_record();

    if (!own)
        return true;
    gf_store_seq_cst(&own->used_stream, (uintptr_t)stream);
    if (gf_load_seq_cst(&own->copy_stream) == (uintptr_t)stream)
        return true;
    gf_hold_used_stream();
    return false;
}

void gf_hold_used_stream(void)
{
    struct gf_submitter *const own = own_record();
    if (own && !batch.hold.ticket)
        gf_store_release(&own->used_stream, 0);
}

/*
 * Whether the stream and the legacy stream wait for each other. Asking for the flags of a stream that
 * is being captured would end its capture, so no capture begins meanwhile. If a stream is being
 * captured, the result is true.
 */
static bool is_blocking(CUstream stream)
{
    unsigned flags = 0, none_seen = gf_captures_begun() - 1; /* so that the state is queried */

    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        !gf_setup.cuda->cuStreamGetFlags || !gf_issue_enter(stream, &none_seen))
        return true;
    const CUresult result = gf_setup.cuda->cuStreamGetFlags(stream, &flags);
    gf_issue_leave();
    return result != CUDA_SUCCESS || !(flags & CU_STREAM_NON_BLOCKING);
}

/*
 * Whether a call on the stream `there` (gf_submitter.stream) may put something between the DMAs of a
 * copy on `stream`. The context of the call is not known, and neither are the flags of some streams;
 * then the result is true.
 */
static bool may_meet(uintptr_t there, CUstream stream, bool blocking)
{
    if (!there || (there & ~GF_SUBMIT_NON_BLOCKING) == (uintptr_t)stream)
        return there && stream != CU_STREAM_PER_THREAD;
    if (stream == CU_STREAM_LEGACY)
        return !(there & GF_SUBMIT_NON_BLOCKING);
    return blocking && (there == (uintptr_t)CU_STREAM_LEGACY);
}

/*
 * Waits until the thread has left the call that it is inside. From then on its next call meets the
 * hold. False: the call takes longer.
 */
static bool has_left(const struct gf_submitter *submitter, uintptr_t there)
{
    const uint64_t until = gf_now_ns() + LEAVE_NS, begun = gf_load_acquire(&submitter->begun);
    do {
        gf_relax();
        const uintptr_t now = gf_load_acquire(&submitter->stream);
        if (now == GF_SUBMIT_SEVERAL)
            return false;
        if (now != there || gf_load_acquire(&submitter->begun) != begun)
            return true;
    } while (gf_now_ns() < until);
    return false;
}

static bool is_inside(const struct gf_submitter *submitter, bool shared_record, CUstream stream,
                      CUcontext context, bool blocking)
{
    const uintptr_t there = gf_load_seq_cst(&submitter->stream);

    if (!there)
        return false;
    if (shared_record || there == GF_SUBMIT_SEVERAL) /* a shared record is a sum */
        return true;
    if (!may_meet(there, stream, blocking))
        return false;
    const uintptr_t other = gf_load_acquire(&submitter->context);
    return other ? other == (uintptr_t)context : !has_left(submitter, there);
}

/* Whether another thread is inside a call that may put something on the stream. */
static bool others_are_inside(CUstream stream, CUcontext context, bool blocking)
{
    const unsigned own = gf_setup.submitter();

    if (own == GF_SUBMITTERS) /* the record of this thread would look like another thread's */
        return true;
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        if (i != own &&
            is_inside(&records()->submitters[i], i >= GF_SUBMITTERS_OWN, stream, context, blocking))
            return true;
    return false;
}

bool gf_hold_others_submit(void)
{
    const unsigned own = records() ? gf_setup.submitter() : 0;
    uintptr_t calls = 0; /* that of the caller is in the sum of a record that it shares */

    for (unsigned i = 0; records() && i < GF_SUBMITTERS; i++) {
        const uintptr_t there = gf_load_acquire(&records()->submitters[i].stream);
        if (i != own)
            calls += i < GF_SUBMITTERS_OWN ? there != 0 : there / GF_SUBMIT_SOME;
    }
    return calls > (own == GF_SUBMITTERS);
}

/* Holds. */

static uint64_t ticket_of(const struct entry *entry)
{
    return gf_load_acquire(&entry->ticket) & ~TICKET_ISSUES;
}

static struct entry *take_entry(void)
{
    for (unsigned i = 0; i < HOLDS; i++) {
        uint64_t none = TICKET_NONE;
        if (gf_load_relaxed(&entries[i].ticket) == TICKET_NONE &&
            gf_cas_acquire(&entries[i].ticket, &none, TICKET_FILLING))
            return &entries[i];
    }
    return NULL;
}

/* Ends a hold, unless another thread has done so, or the copy is issuing a DMA. */
static bool end_entry(struct entry *entry, uint64_t ticket)
{
    if (!gf_cas_acq_rel(&entry->ticket, &ticket, TICKET_NONE))
        return false;
    gf_sub_seq_cst(&records()->holds, 1);
    return true;
}

static bool begin_hold(CUstream stream, CUcontext context, struct gf_hold *ret)
{
    struct entry *entry = take_entry();
    const bool blocking = entry && is_blocking(stream);

    if (!entry)
        return false;
    gf_store_relaxed(&entry->stream, (uintptr_t)stream);
    gf_store_relaxed(&entry->context, (uintptr_t)context);
    gf_store_relaxed(&entry->owner, (uintptr_t)&here);
    gf_store_relaxed(&entry->thread, gf_descriptor_id());
    gf_store_relaxed(&entry->blocking, blocking);
    gf_store_relaxed(&entry->cut, false);
    gf_store_relaxed(&entry->reads_file, false);
    gf_store_relaxed(&entry->awaits_dma, false);
    gf_store_relaxed(&entry->is_batch, ret == &batch.hold);
    ret->entry = (unsigned)(entry - entries);
    ret->follows_legacy = blocking && stream != CU_STREAM_LEGACY;
    ret->ticket = gf_add_relaxed(&last_ticket, 1) + 1;
    gf_store_release(&entry->ticket, ret->ticket);
    gf_add_seq_cst(&records()->holds, 1);
    if (!others_are_inside(stream, context, blocking))
        return true;
    gf_hold_end(ret);
    return false;
}

bool gf_hold_begin(CUstream stream, CUcontext context, struct gf_hold *ret)
{
    *ret = (struct gf_hold){0};
    if (!gf_hold_is_batch(stream, context))
        return !records() || begin_hold(stream, context, ret);
    *ret = batch.hold;
    ret->is_batch = true;
    return true;
}

void gf_hold_cut(const struct gf_hold *hold)
{
    if (hold->ticket)
        gf_store_relaxed(&entries[hold->entry].cut, true);
}

void gf_hold_reads_file(const struct gf_hold *hold)
{
    if (hold->ticket)
        gf_store_relaxed(&entries[hold->entry].reads_file, true);
}

void gf_hold_awaits_dma(const struct gf_hold *hold, bool awaits)
{
    if (hold->ticket && ticket_of(&entries[hold->entry]) == hold->ticket)
        gf_store_relaxed(&entries[hold->entry].awaits_dma, awaits);
}

void gf_hold_progress(const struct gf_hold *hold)
{
    if (hold->ticket && ticket_of(&entries[hold->entry]) == hold->ticket)
        gf_add_relaxed(&entries[hold->entry].progress, 1);
}

bool gf_hold_issue_begin(const struct gf_hold *hold, struct gf_hold *ret_issuing)
{
    uint64_t ticket = hold->ticket;

    ret_issuing->ticket = 0;
    if (!ticket)
        return true;
    if (gf_load_relaxed(&entries[hold->entry].lost) == ticket)
        end_entry(&entries[hold->entry], ticket);
    if (!gf_cas_acq_rel(&entries[hold->entry].ticket, &ticket, ticket | TICKET_ISSUES))
        return false;
    *ret_issuing = *hold;
    return true;
}

void gf_hold_issue_end(const struct gf_hold *issuing)
{
    uint64_t ticket = issuing->ticket | TICKET_ISSUES;

    if (!issuing->ticket)
        return;
    gf_hold_progress(issuing);
    gf_cas_acq_rel(&entries[issuing->entry].ticket, &ticket, issuing->ticket);
}

void gf_hold_end(struct gf_hold *hold)
{
    if (hold->ticket && !hold->is_batch)
        end_entry(&entries[hold->entry], hold->ticket);
    hold->ticket = 0;
}

/* Batches. */

bool gf_hold_is_batch(CUstream stream, CUcontext context)
{
    return batch.hold.ticket && batch.stream == stream && batch.context == context &&
           ticket_of(&entries[batch.hold.entry]) == batch.hold.ticket;
}

bool gf_hold_begin_batch(CUstream stream, CUcontext context)
{
    if (!records() || gf_hold_is_batch(stream, context))
        return true;
    gf_hold_end_batch(); /* a signal handler has left an earlier batch by longjmp */
    if (!begin_hold(stream, context, &batch.hold))
        return false;
    batch.stream = stream;
    batch.context = context;
    gf_hold_cut(&batch.hold);
    return gf_hold_uses_stream(stream);
}

void gf_hold_end_batch(void)
{
    gf_hold_end(&batch.hold);
    gf_hold_used_stream();
}

/* Waiting. */

/*
 * Whether a call on this stream submits to the context. The stream of a copy may belong to another
 * context than the current one. If the stream cannot be queried now, the result is true.
 */
static bool is_of_context(CUstream stream, uintptr_t context)
{
    const bool has_handle = stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    unsigned none_seen = gf_captures_begun() - 1; /* so that the state is queried */
    CUcontext found = NULL;

    if (gf_setup.cuda->cuCtxGetCurrent(&found) == CUDA_SUCCESS && (uintptr_t)found == context)
        return true;
    if (!has_handle)
        return false;
    if (!gf_issue_enter(stream, &none_seen))
        return true;
    const CUresult result = gf_setup.cuda->cuStreamGetCtx(stream, &found);
    gf_issue_leave();
    return result != CUDA_SUCCESS || (uintptr_t)found == context;
}

/* Whether the entry's copy and a call on this stream are ordered. */
static bool are_ordered(uintptr_t held, bool held_blocking, uintptr_t held_context, CUstream stream)
{
    if (held > GF_SUBMIT_FILLING && held == (uintptr_t)stream)
        return true;
    if (held == (uintptr_t)CU_STREAM_LEGACY ? !is_blocking(stream)
                                            : stream != CU_STREAM_LEGACY || !held_blocking)
        return false;
    return is_of_context(stream, held_context);
}

/* Returns the ticket of the entry if the entry concerns this call; else 0. */
static uint64_t find_ticket(const struct entry *entry, CUstream stream)
{
    const uint64_t ticket = ticket_of(entry);
    if (ticket < TICKET_FIRST || gf_load_relaxed(&entry->owner) == (uintptr_t)&here)
        return 0;
    const uintptr_t held = gf_load_relaxed(&entry->stream),
                    context = gf_load_relaxed(&entry->context);
    const bool blocking = gf_load_relaxed(&entry->blocking);
    atomic_thread_fence(memory_order_acquire);
    if (ticket_of(entry) != ticket)
        return 0;
    return are_ordered(held, blocking, context, stream) ? ticket : 0;
}

/* Ends the hold, so that the copy does not wait for what a thread of the driver submits. */
static void end_at_once(struct entry *entry, uint64_t ticket)
{
    if (!end_entry(entry, ticket))
        gf_store_relaxed(&entry->lost, ticket);
    gf_copy_stats_add(holds.ended, 1);
}

static void note_met(const struct entry *entry, uint64_t ticket)
{
    const uintptr_t stream = gf_load_relaxed(&entry->stream),
                    context = gf_load_relaxed(&entry->context);
    if (gf_load_relaxed(&entry->cut) && ticket_of(entry) == ticket)
        gf_hold_note_shared((CUstream)stream, (CUcontext)context);
}

/*
 * Whether the copying thread or a helper does not sleep. If it waits for a CPU or for the kernel,
 * no thread of the program keeps it waiting. A handler of a signal that computes looks the same. A
 * copy that waits for a DMA may spin.
 */
static bool is_awake(const struct entry *entry)
{
    if (gf_load_relaxed(&entry->awaits_dma) || gf_load_relaxed(&entry->reads_file))
        return false;
    const char state = gf_procfs_thread_state(gf_load_relaxed(&entry->thread));
    return state && (state != 'S' || gf_pools_are_awake());
}

/*
 * Ends the hold of a copy that made no progress for this time, so that later calls do not wait again,
 * and an entry whose thread has left the copy by longjmp or has ended becomes free. A copy that is
 * issuing a DMA keeps its hold for GF_TUNE_HOLD_MOST_NS: the driver's call ends soon, unless a signal
 * handler left it by longjmp.
 */
static bool end_stalled(struct entry *entry, uint64_t ticket, uint64_t waited_ns)
{
    const uint64_t limit = gf_load_relaxed(&entry->reads_file)   ? GF_TUNE_HOLD_MOST_NS
                           : gf_load_relaxed(&entry->awaits_dma) ? GF_TUNE_HOLD_DMA_NS
                                                                 : GF_TUNE_HOLD_NS;

    if (waited_ns <= limit)
        return false;
    return end_entry(entry, ticket) ||
           (waited_ns > GF_TUNE_HOLD_MOST_NS && end_entry(entry, ticket | TICKET_ISSUES));
}

/* Waits until the hold ends. */
static void await_entry(struct entry *entry, uint64_t ticket)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    const uint64_t start = gf_now_ns();
    /* what `waited` was at the last progress, when the copy was last awake, and when to look again */
    uint64_t now = start, waited = 0, since = 0, awake = 0, look = GF_TUNE_HOLD_NS;
    uint32_t seen = gf_load_relaxed(&entry->progress);

    while (ticket_of(entry) == ticket) {
        const uint32_t progress = gf_load_relaxed(&entry->progress);
        const uint64_t before = now;
        now = gf_now_ns();
        waited += gf_min(now - before, STEP_NS);
        if (progress != seen)
            since = awake = waited;
        else if (waited >= look && waited - since <= GF_TUNE_HOLD_MOST_NS && is_awake(entry))
            awake = waited;
        if (waited == awake || waited >= look)
            look = waited + GF_TUNE_HOLD_NS;
        seen = progress;
        note_met(entry, ticket);
        if (end_stalled(entry, ticket, waited - awake)) {
            gf_copy_stats_add(holds.ended, 1);
            break;
        }
        if (waited < SPIN_NS)
            gf_relax();
        else
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    gf_copy_stats_add(holds.met, 1);
    gf_copy_stats_add(holds.ns, now - start);
}

void gf_hold_await(CUstream stream, bool begins_capture)
{
    if (!records())
        return;
    for (unsigned i = 0; i < HOLDS; i++) {
        const uint64_t ticket = find_ticket(&entries[i], stream);
        if (!ticket || (begins_capture && !gf_load_relaxed(&entries[i].is_batch)))
            continue;
        if (gf_is_captured(stream)) /* the call does not put anything on the stream now */
            return;
        note_met(&entries[i], ticket);
        if (gf_setup.is_drivers())
            end_at_once(&entries[i], ticket);
        else
            await_entry(&entries[i], ticket);
    }
}

/* Whether results of the stream are pending that another stream may wait for. */
static bool is_pending(const struct gf_visible *visible)
{
    const uint32_t made = gf_load_acquire(&visible->made);
    return made != gf_load_acquire(&visible->seen) && made != gf_load_relaxed(&visible->first);
}

/*
 * Whether results are pending for which a stream of the legacy stream's order may wait. These are the
 * results of all such streams, because work of the legacy stream may follow them. Once a stream has
 * waited for an event, they are those of all streams. The counts are loaded in the order in which they
 * are handed on (preload/attach/counters.h).
 */
static bool others_are_pending(const struct gf_submit_table *table, const struct gf_visible *legacy)
{
    const bool all = gf_load_relaxed(&table->awaits_events);

    for (unsigned i = 0; i < GF_STREAM_SLOTS; i++)
        if (gf_load_acquire(&table->slots[i].stream) && /* also of one that hands on its count */
            (all || gf_load_relaxed(&table->slots[i].blocking)) &&
            is_pending(&table->slots[i].visible))
            return true;
    for (unsigned i = 0; i < GF_SUBMITTERS_OWN; i++)
        if (is_pending(&table->submitters[i].own_visible))
            return true;
    for (unsigned i = 0; i < GF_VISIBLE_LEGACY; i++)
        if ((all || &table->legacy_visible[i] == legacy) && is_pending(&table->legacy_visible[i]))
            return true;
    return gf_load_relaxed(&table->uncounted_visible);
}

/* Returns the stream's own count, and sets *ret_follows to whether the results of others count, too. */
static struct gf_visible *find_count(struct gf_submit_table *table, CUstream stream,
                                     struct gf_visible *legacy, bool *ret_follows)
{
    struct gf_stream_slot *slot;

    *ret_follows = true;
    if (stream == CU_STREAM_LEGACY)
        return legacy;
    if (stream == CU_STREAM_PER_THREAD) {
        const unsigned own = gf_setup.submitter();
        return own < GF_SUBMITTERS_OWN ? &table->submitters[own].own_visible : NULL;
    }
    slot = gf_stream_slot_find(table, stream);
    if (!slot)
        return NULL;
    *ret_follows = gf_load_acquire(&slot->blocking) || gf_load_relaxed(&table->awaits_events);
    return &slot->visible;
}

bool gf_visible_is_pending(CUstream stream, CUcontext context, struct gf_visible_mark *ret)
{
    struct gf_submit_table *const table = gf_setup.submissions;
    bool follows, unused;

    *ret = (struct gf_visible_mark){.of = NULL};
    if (!table)
        return true;
    struct gf_visible *const legacy = gf_visible_of_legacy(table, context);
    struct gf_visible *const own = find_count(table, stream, legacy, &follows);
    if (!own)
        return true;
    ret->made = gf_load_acquire(&own->made);
    const bool pending = ret->made != gf_load_acquire(&own->seen);
    if (gf_load_relaxed(&own->context) == (uintptr_t)context)
        ret->of = own;
    if (!pending && follows && others_are_pending(table, legacy))
        return true;
    /* Another thread may have unlisted the stream meanwhile, and a third one may use its slot. */
    if (find_count(table, stream, legacy, &unused) == own)
        return pending;
    ret->of = NULL;
    return true;
}

void gf_visible_waited(const struct gf_visible_mark *mark)
{
    if (mark->of)
        gf_store_relaxed(&mark->of->seen, mark->made);
}
