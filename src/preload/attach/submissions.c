/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/attach/submissions.h"

#include "base/clock.h"

/*
 * The longest time that a hook waits for the end of one query by the sampler. The query must not
 * reach the driver after its stream was destroyed. On a host on which the sampler was starved, a
 * query took 1.4 s.
 */
#define SAMPLER_NS UINT64_C(10000000000)
#define SPIN_NS 50000
/* The longest wait for the program's threads. One may have left its query by longjmp. */
#define QUERY_NS UINT64_C(100000000)
/* The longest wait for a copy that is about to hold the stream. */
#define COPY_NS UINT64_C(1000000000)

_Static_assert(GF_SUBMITTERS_OWN == GF_COUNTER_OWN, "submitters are numbered as counter sets");

_Atomic unsigned gf_submissions_elsewhere, gf_submissions_epoch;
struct gf_communication gf_communication;
static _Atomic unsigned queries;    /* of the program's threads, in progress */
static _Atomic bool has_lost_query; /* a query did not end: no more queries, and no more waits */

static void fill_slot(struct gf_stream_slot *slot, const struct gf_stream_facts *facts)
{
    gf_store_relaxed(&slot->context, (uintptr_t)facts->context);
    gf_store_relaxed(&slot->device, facts->device);
    gf_store_release(&slot->blocking,
                     facts->blocking); /* after the last stream has left the slot */
}

/*
 * Two threads that add the same stream at the same time may create two slots. The sampler then
 * queries both, and gf_submissions_unlist removes both.
 */
static struct gf_stream_slot *take_stream_slot(CUstream stream, const struct gf_stream_facts *facts)
{
    for (unsigned i = 0; i < GF_STREAM_PROBES; i++) {
        struct gf_stream_slot *slot = gf_stream_slot_probe(&gf_submissions, stream, i);
        uintptr_t none = 0;
        if (gf_load_relaxed(&slot->stream) ||
            !gf_cas_acquire(&slot->stream, &none, GF_SUBMIT_FILLING))
            continue;
        gf_store_relaxed(&slot->work, 0);
        gf_store_relaxed(&slot->visible.context, (uintptr_t)facts->context);
        /*
         * The stream may have got work before it was listed. A thread may yet store what it has seen
         * of an earlier stream, so no number is used again. A hook that found that stream may count
         * its result now, so the addition is atomic. It comes after what was handed on, and before
         * `first`, by which such a hook sees that the slot has another stream.
         */
        const uint32_t made = gf_add_release(&slot->visible.made, 1);
        gf_store_relaxed(&slot->visible.seen, made);
        gf_store_release(&slot->visible.first, made + 1);
        fill_slot(slot, facts);
        const size_t number = (size_t)(slot - gf_submissions.slots);
        atomic_fetch_or(&gf_submissions.listed[number / 64], UINT64_C(1) << number % 64);
        gf_store_release(&slot->stream, (uintptr_t)stream);
        return slot;
    }
    return NULL;
}

struct gf_stream_slot *gf_submissions_list(CUstream stream, gf_stream_facts_fn *facts)
{
    struct gf_stream_slot *const slot = gf_stream_slot_find(&gf_submissions, stream);
    struct gf_stream_facts found;

    if (slot)
        return slot;
    return facts(stream, &found) ? take_stream_slot(stream, &found) : NULL;
}

struct gf_visible *gf_submissions_visible(CUstream stream, CUcontext context)
{
    const unsigned set = gf_thread.counters;

    if (stream == CU_STREAM_LEGACY)
        return gf_visible_of_legacy(&gf_submissions, context);
    if (stream == CU_STREAM_PER_THREAD)
        return set && set <= GF_SUBMITTERS_OWN ? &gf_submissions.submitters[set - 1].own_visible
                                               : NULL;
    struct gf_stream_slot *const slot = gf_stream_slot_find(&gf_submissions, stream);
    return slot ? &slot->visible : NULL;
}

bool gf_submissions_list_context(CUcontext context, int device)
{
    const uintptr_t handle = (uintptr_t)context;

    if (device < 0 || (unsigned)device >= GF_SUBMIT_DEVICES)
        return false;
    for (unsigned i = 0; i < GF_SUBMIT_CONTEXTS; i++)
        if (gf_load_relaxed(&gf_submissions.contexts[i].context) == handle)
            return false;
    for (unsigned i = 0; i < GF_SUBMIT_CONTEXTS; i++) {
        struct gf_submit_context *entry = &gf_submissions.contexts[i];
        uintptr_t none = 0;
        if (!gf_load_relaxed(&entry->context) &&
            gf_cas_acquire(&entry->context, &none, GF_SUBMIT_FILLING)) {
            gf_store_relaxed(&entry->device, device);
            gf_store_release(&entry->context, handle);
            return true;
        }
    }
    return false;
}

static bool is_asking(uintptr_t handle)
{
    return gf_load_seq_cst(&gf_submissions.asking) == handle;
}

static bool is_queried(uintptr_t unused)
{
    (void)unused;
    return gf_load_seq_cst(&queries) && !gf_load_relaxed(&has_lost_query);
}

/* Waits while a query is in progress. Returns false when the time is over. */
static bool await_query(bool (*is_in_progress)(uintptr_t), uintptr_t handle, uint64_t limit_ns)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    gf_keep_errno();
    const uint64_t start = gf_now_ns();
    bool goes_on = true;

    for (uint64_t waited = 0; (goes_on = is_in_progress(handle)) && waited < limit_ns;
         waited = gf_now_ns() - start)
        if (waited > SPIN_NS) /* a raw system call, which is not a cancellation point */
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    return !goes_on;
}

/*
 * Waits for the sampler's query in progress, but not for a later one, which finds in the table what
 * this thread has changed there before.
 */
static void await_sampler(void)
{
    const uintptr_t now = gf_load_seq_cst(&gf_submissions.asking);

    if (gf_unlikely(now))
        await_query(is_asking, now, SAMPLER_NS);
}

void gf_submissions_await_queries(void)
{
    await_sampler();
    if (gf_unlikely(is_queried(0)) && !await_query(is_queried, 0, QUERY_NS))
        gf_store_relaxed(&has_lost_query, true);
}

bool gf_submissions_query_begin(void)
{
    gf_add_seq_cst(&queries, 1);
    if (!gf_load_seq_cst(&gf_submissions.captures) && !gf_load_relaxed(&has_lost_query))
        return true;
    gf_submissions_query_end();
    return false;
}

/* If all queries have ended, none was lost: a query took longer than QUERY_NS. */
void gf_submissions_query_end(void)
{
    if (gf_sub_seq_cst(&queries, 1) == 1)
        gf_store_relaxed(&has_lost_query, false);
}

/*
 * A Dekker-style handshake with a hook that counts a result: the hook adds to the stream's count, then
 * loads `stream`; this function stores `stream`, then hands on the count.
 */
static void remove_stream(struct gf_stream_slot *slot, uintptr_t stream)
{
    if (!gf_cas_seq_cst(&slot->stream, &stream, GF_SUBMIT_FILLING))
        return;
    gf_visible_hand_on(&slot->visible, gf_load_relaxed(&slot->blocking));
    gf_store_release(&slot->stream, 0);
}

void gf_submissions_unlist(CUstream stream)
{
    if ((uintptr_t)stream <= GF_SUBMIT_FILLING)
        return; /* a predefined handle, which no slot has */
    for (unsigned i = 0; i < GF_STREAM_PROBES; i++) {
        struct gf_stream_slot *slot = gf_stream_slot_probe(&gf_submissions, stream, i);
        if (gf_load_relaxed(&slot->stream) == (uintptr_t)stream)
            remove_stream(slot, (uintptr_t)stream);
    }
    gf_add_release(&gf_submissions_epoch, 1);
    if (gf_unlikely(is_asking((uintptr_t)stream)))
        await_query(is_asking, (uintptr_t)stream, SAMPLER_NS);
}

static bool is_used(uintptr_t stream)
{
    const unsigned own = gf_submitter_of_caller();

    for (unsigned i = 0; i < GF_SUBMITTERS_OWN; i++)
        if (i != own && gf_load_seq_cst(&gf_submissions.submitters[i].used_stream) == stream)
            return true;
    return false;
}

void gf_submissions_lose(CUstream stream)
{
    const uintptr_t handle = (uintptr_t)stream;
    const unsigned own = gf_submitter_of_caller();

    /* a predefined handle cannot be destroyed; a forked child has no copies of other threads */
    if (handle <= GF_SUBMIT_FILLING || !gf_submissions_on())
        return;
    for (unsigned i = 0; i < GF_SUBMITTERS_OWN; i++) {
        uintptr_t there = handle;
        if (i != own)
            gf_cas_seq_cst(&gf_submissions.submitters[i].copy_stream, &there, 0);
    }
    if (gf_unlikely(is_used(handle)))
        await_query(is_used, handle, COPY_NS);
}

static bool belongs(uintptr_t context, int own_device, CUcontext ended, int device)
{
    return context > GF_SUBMIT_FILLING &&
           (ended ? context == (uintptr_t)ended : device < 0 || own_device == device);
}

/*
 * Streams and contexts that remain in use are listed again at their next submission. Only a
 * submission to a stream without recorded work lists a context. So the records of work of the
 * legacy stream and of per-thread streams are cleared too.
 */
void gf_submissions_unlist_context(CUcontext context, int device)
{
    struct gf_submit_table *table = &gf_submissions;

    for (unsigned i = 0; i < GF_STREAM_SLOTS; i++) {
        struct gf_stream_slot *slot = &table->slots[i];
        const uintptr_t stream = gf_load_acquire(&slot->stream);
        if (stream > GF_SUBMIT_FILLING && belongs(gf_load_relaxed(&slot->context),
                                                  gf_load_relaxed(&slot->device), context, device))
            remove_stream(slot, stream);
    }
    for (unsigned i = 0; i < GF_SUBMIT_CONTEXTS; i++) {
        struct gf_submit_context *entry = &table->contexts[i];
        uintptr_t there = gf_load_acquire(&entry->context);
        if (belongs(there, gf_load_relaxed(&entry->device), context, device))
            gf_cas_seq_cst(&entry->context, &there, 0);
    }
    gf_add_release(&gf_submissions_epoch, 1);
    gf_store_relaxed(&table->legacy_work, 0);
    for (unsigned i = 0; i < GF_SUBMITTERS; i++)
        gf_store_relaxed(&table->submitters[i].own_work, 0);
    await_sampler();
}

void gf_submissions_in_child(void)
{
    gf_store_relaxed(&gf_submissions.on, 0);
    gf_store_relaxed(&gf_submissions.holds, 0);
    gf_store_relaxed(&gf_submissions.asking, 0);
    gf_store_relaxed(&queries, 0);
}

unsigned gf_submitter_of_caller(void)
{
    const unsigned set = gf_thread.counters;
    return set && set <= GF_SUBMITTERS_OWN ? set - 1 : GF_SUBMITTERS;
}

static pid_t own_tid(void)
{
    const unsigned set = gf_thread.counters;
    return set && set <= GF_COUNTER_OWN
               ? (pid_t)(uint32_t)gf_load_relaxed(&gf_counter_owners[set - 1])
               : (pid_t)syscall(SYS_gettid);
}

static uintptr_t (*_Atomic thread_state)(void);

void gf_submissions_set_python(uintptr_t (*function)(void))
{
    gf_submissions.starter = (pid_t)syscall(SYS_gettid);
    gf_submissions.starter_python = function();
    gf_store_release(&thread_state, function);
}

bool gf_submissions_has_gap(int device)
{
    if (device < 0 || (unsigned)device >= GF_SUBMIT_DEVICES)
        return false;
    const struct gf_submit_gap *gap = &gf_submissions.gaps[device];
    return gf_load_acquire(&gap->open) && !gf_load_relaxed(&gap->ended_ns);
}

void gf_submissions_end_gap(int device)
{
    uint64_t none = 0;

    if (!gf_submissions_has_gap(device))
        return;
    struct gf_submit_gap *gap = &gf_submissions.gaps[device];
    uintptr_t (*const python)(void) = gf_load_acquire(&thread_state);
    if (!gf_cas_acq_rel(&gap->ended_ns, &none, gf_now_ns()))
        return;
    gf_store_relaxed(&gap->python, python ? python() : 0);
    gf_store_release(&gap->ender, own_tid());
}

/* A thread that ends a stream or a context has the slot. Its capture may end meanwhile: CLOSED. */
#define HELD ((uintptr_t)4)
#define CLOSED ((uintptr_t)5)

/*
 * `origin` is 0 if the slot is free; GF_SUBMIT_FILLING, HELD or CLOSED while a thread owns the slot;
 * and otherwise equal to `stream`. While a thread owns the slot, only that thread changes the other
 * members.
 */
static struct {
    _Atomic(uintptr_t) origin, stream;
    _Atomic(uintptr_t) context;
} slots[GF_CAPTURES];
static _Atomic unsigned without_slot;

static bool take_capture_slot(unsigned i, uintptr_t from, uintptr_t to)
{
    return gf_load_relaxed(&slots[i].origin) == from && gf_cas_acq_rel(&slots[i].origin, &from, to);
}

void gf_captures_open(CUstream origin, CUcontext context)
{
    gf_add_seq_cst(&gf_submissions.captures, 1);
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_capture_slot(i, 0, GF_SUBMIT_FILLING)) {
            gf_store_relaxed(&slots[i].stream, (uintptr_t)origin);
            gf_store_relaxed(&slots[i].context, (uintptr_t)context);
            gf_store_release(&slots[i].origin, (uintptr_t)origin);
            return;
        }
    gf_add_relaxed(&without_slot, 1);
}

static void free_slot(unsigned i)
{
    gf_store_release(&slots[i].origin, 0);
    gf_sub_seq_cst(&gf_submissions.captures, 1);
}

void gf_captures_close(CUstream origin)
{
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_capture_slot(i, (uintptr_t)origin, GF_SUBMIT_FILLING)) {
            free_slot(i);
            return;
        }
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (gf_load_acquire(&slots[i].origin) == HELD &&
            gf_load_relaxed(&slots[i].stream) == (uintptr_t)origin &&
            take_capture_slot(i, HELD, CLOSED))
            return;
    unsigned now = gf_load_relaxed(&without_slot);
    while (now && !gf_cas_weak_relaxed(&without_slot, &now, now - 1))
        continue;
    if (now)
        gf_sub_seq_cst(&gf_submissions.captures, 1);
}

unsigned gf_captures_of_stream(CUstream origin)
{
    unsigned ret = 0;

    if (gf_likely(!gf_load_relaxed(&gf_submissions.captures)) ||
        (uintptr_t)origin <= GF_SUBMIT_FILLING)
        return 0;
    for (unsigned i = 0; i < GF_CAPTURES; i++)
        if (take_capture_slot(i, (uintptr_t)origin, HELD))
            ret |= 1u << i;
    return ret;
}

unsigned gf_captures_of_context(CUcontext context)
{
    unsigned ret = 0;

    for (unsigned i = 0; context && i < GF_CAPTURES; i++) {
        const uintptr_t origin = gf_load_acquire(&slots[i].origin);
        if (origin && (origin < GF_SUBMIT_FILLING || origin > CLOSED) &&
            gf_load_relaxed(&slots[i].context) == (uintptr_t)context &&
            take_capture_slot(i, origin, HELD))
            ret |= 1u << i;
    }
    return ret;
}

void gf_captures_left(unsigned captures, bool ended)
{
    for (; captures; captures &= captures - 1) {
        const unsigned i = (unsigned)__builtin_ctz(captures);
        if (ended || !take_capture_slot(i, HELD, gf_load_relaxed(&slots[i].stream)))
            free_slot(i);
    }
}

/* Direct-mapped; a collision overwrites. In the static TLS block, so that no access allocates. */
static __thread
    __attribute__((tls_model("initial-exec"))) struct gf_unlisted unlisted[GF_UNLISTED_STREAMS];

static struct gf_unlisted *entry_of(CUstream stream)
{
    return &unlisted[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15) >> 40) %
                     GF_UNLISTED_STREAMS];
}

const struct gf_unlisted *gf_unlisted_find(CUstream stream, unsigned epoch)
{
    struct gf_unlisted *entry = entry_of(stream);

    return entry->stream == stream && entry->epoch == epoch && entry->looked++ < GF_UNLISTED_RETRY
               ? entry
               : NULL;
}

void gf_unlisted_add(CUstream stream, unsigned epoch, int device)
{
    *entry_of(stream) = (struct gf_unlisted){.stream = stream, .device = device, .epoch = epoch};
}
