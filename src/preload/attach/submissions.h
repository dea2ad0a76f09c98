/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted work, open captures. */
#pragma once

#include "abi/cuda.h"
#include "abi/gputime_api.h"
#include "base/atomic.h"
#include "base/base.h"
#include "preload/attach/counters.h"

/*
 * Records the work that the program submits to GPUs, so that the sampler knows which streams to
 * query. A submission costs two plain additions to words of the calling thread, and two tests of
 * the stream's slot. Only the submission that ends a gap reads the clock. The functions take no
 * lock and allocate nothing. They may be called on any thread.
 */

/*
 * One call that submits work. set: the number of the thread's counter set; 0 if the call is not
 * recorded.
 */
struct gf_submission {
    unsigned set;
    unsigned work; /* bits of enum gf_work */
    _Atomic unsigned *stream_work;
    /* The stream of the call that this call interrupted, or inside which it is made; 0: none. */
    uintptr_t outer;
};

/*
 * Facts about a stream, which are read when the stream is listed. A gf_stream_facts_fn returns
 * false if they cannot be read now.
 */
struct gf_stream_facts {
    CUcontext context;
    int device;
    bool blocking;
};
typedef bool gf_stream_facts_fn(CUstream stream, struct gf_stream_facts *ret);

/*
 * Finds the stream's slot, or fills a new one with the result of `facts`. NULL if no slot is free,
 * or if `facts` returns false. stream: neither 0 nor a predefined handle.
 */
struct gf_stream_slot *gf_submissions_list(CUstream stream, gf_stream_facts_fn *facts);
/*
 * Returns the stream's count of calls with visible results; NULL if it has none: the stream is not
 * listed, or the calling thread shares its record. stream: not 0; context: the current one.
 */
struct gf_visible *gf_submissions_visible(CUstream stream, CUcontext context);
/*
 * Adds a context to the list. Returns true if the context was added, and false if it was already
 * listed or could not be added.
 */
bool gf_submissions_list_context(CUcontext context, int device);

/*
 * A common record of work of all streams without a slot. It stays 0, so that each launch on such a
 * stream ends the device's gap. The sampler does not read it.
 */
extern _Atomic unsigned gf_submissions_elsewhere;

/* Changes when a stream or a context is removed from the table or the list. */
extern _Atomic unsigned gf_submissions_epoch;

/*
 * Called by hooks of calls that begin a capture, after the capture was counted, so that no query
 * begins. Waits for the end of queries in progress: for the sampler's one at most 10 s, for others
 * at most 0.1 s.
 */
void gf_submissions_await_queries(void);
/*
 * Called around a query of the legacy stream by a thread of the program, because the query would
 * end a capture that begins meanwhile. False: the caller must not query, because a capture is open
 * or begins.
 */
bool gf_submissions_query_begin(void);
void gf_submissions_query_end(void);
/*
 * Remove a stream from the table, or a context and its streams, before it ends. Wait at most 10 s
 * for the sampler's query in progress: a stream for a query of this stream, a context for any one.
 */
void gf_submissions_unlist(CUstream stream);
/*
 * If context is NULL, removes all contexts of the device, or of all devices if device is negative.
 */
void gf_submissions_unlist_context(CUcontext context, int device);
/*
 * Called before a stream is destroyed. A copy of another thread that waits for the stream does not use
 * it any more; waits at most a second for one that has waited, and uses it until a hold keeps the
 * stream, or until the driver has made the copy.
 */
void gf_submissions_lose(CUstream stream);
/* gf_preload.submitter */
unsigned gf_submitter_of_caller(void);
/* Called in a forked child, which has no sampler. */
void gf_submissions_in_child(void);

/*
 * Sets the function that returns the calling thread's PyThreadState. Called once, before any work
 * is recorded, by the thread that calls cuInit.
 */
void gf_submissions_set_python(uintptr_t (*thread_state)(void));
/* Whether the device has an open gap that no submission has ended yet. */
bool gf_submissions_has_gap(int device);
/*
 * Ends the open gap, if there is one, of the device to which work was submitted. Records when the
 * gap ended, and the calling thread.
 */
void gf_submissions_end_gap(int device);

/*
 * Publishes which timed driver call the calling thread is in: 1 + an enum gf_timed. 0: it is in
 * none.
 */
static inline void gf_submissions_doing(unsigned doing)
{
    const unsigned set = gf_thread.counters;
    if (gf_likely(set && set <= GF_COUNTER_OWN) && !gf_thread.inside)
        gf_store_relaxed(&gf_submissions.submitters[set - 1].doing, doing);
}

/*
 * The code of NCCL, which a caller of cuGetProcAddress was found to be. `size` is stored last; 0: NCCL
 * has not been seen.
 */
struct gf_communication {
    _Atomic(uintptr_t) start;
    _Atomic size_t size;
};
extern struct gf_communication gf_communication;

/* Returns the kind of work of a kernel that the code at `caller` launches. */
static inline unsigned gf_submissions_kind(const void *caller)
{
    const size_t size = gf_load_acquire(&gf_communication.size);
    return gf_unlikely((uintptr_t)caller - gf_load_relaxed(&gf_communication.start) < size)
               ? gf_work_comm
               : gf_work_kernel;
}

/* Records that the calling thread has waited for the GPU. */
static inline void gf_submissions_waited(void)
{
    const unsigned set = gf_thread.counters;
    if (set && set <= GF_COUNTER_OWN && !gf_thread.inside) {
        struct gf_submitter *submitter = &gf_submissions.submitters[set - 1];
        gf_store_relaxed(&submitter->waited, gf_load_relaxed(&submitter->begun));
        gf_store_relaxed(&submitter->waits, gf_load_relaxed(&submitter->waits) + 1);
    }
}

/* Returns the stream's slot if that is the first slot of the look-up, otherwise NULL. */
static inline struct gf_stream_slot *gf_submissions_quick(CUstream stream)
{
    struct gf_stream_slot *slot = gf_stream_slot_probe(&gf_submissions, stream, 0);
    return gf_likely(gf_load_acquire(&slot->stream) == (uintptr_t)stream) ? slot : NULL;
}

static inline bool gf_submissions_on(void)
{
    return gf_load_relaxed(&gf_submissions.on);
}

/*
 * The stream's handle, as gf_submitter.stream has it. Another stream may have the slot by now: then the
 * stream counts as a blocking one.
 */
static inline uintptr_t gf_submissions_stream_of(const struct gf_stream_slot *slot, CUstream stream)
{
    const bool blocking = gf_load_acquire(&slot->blocking);
    return (uintptr_t)stream | (blocking || gf_load_relaxed(&slot->stream) != (uintptr_t)stream
                                    ? 0
                                    : GF_SUBMIT_NON_BLOCKING);
}

/*
 * Publishes the stream of the call that the thread of this set enters. Returns the value for
 * gf_submissions_leave. The store is sequentially consistent: the caller then loads `holds`. A call
 * inside another one publishes GF_SUBMIT_SEVERAL until the outer call ends. Otherwise a copy that
 * sees the inner call end would take the outer call for ended.
 */
static inline uintptr_t gf_submissions_enter(unsigned set, uintptr_t stream)
{
    _Atomic(uintptr_t) *const own = &gf_submissions.submitters[set - 1].stream;
    if (gf_likely(set <= GF_SUBMITTERS_OWN)) {
        const bool is_inner = gf_unlikely(gf_load_relaxed(own) != 0);
        gf_store_relaxed(&gf_submissions.submitters[set - 1].context, 0);
        return gf_exchange_seq_cst(own, is_inner ? GF_SUBMIT_SEVERAL : stream);
    }
    gf_add_seq_cst(own, GF_SUBMIT_SOME);
    return 0;
}

static inline void gf_submissions_leave(unsigned set, uintptr_t outer)
{
    _Atomic(uintptr_t) *const own = &gf_submissions.submitters[set - 1].stream;
    if (gf_unlikely(set > GF_SUBMITTERS_OWN))
        gf_sub_seq_cst(own, GF_SUBMIT_SOME);
    else if (gf_likely(outer == 0))
        gf_store_release(own, 0);
}

/* Whether a copy holds a stream. */
static inline bool gf_submissions_are_held(void)
{
    return gf_unlikely(gf_load_seq_cst(&gf_submissions.holds) != 0);
}

/* Counts a launch of an executable graph. Reads no clock; the sampler sees the count. */
static inline void gf_submissions_launch_graph(CUgraphExec graph)
{
    const uintptr_t address = (uintptr_t)graph;
    struct gf_graph_slot *slot =
        &gf_submissions.graphs[(address * UINT64_C(0x9e3779b97f4a7c15) >> 40) % GF_GRAPH_SLOTS];
    uintptr_t other = gf_load_relaxed(&slot->graph);

    if (!gf_submissions_on() || gf_thread.inside)
        return;
    if (other == address || (!other && gf_cas_relaxed(&slot->graph, &other, address)))
        gf_add_relaxed(&slot->launches, 1);
}

/*
 * The open captures of the process, so that gf_submissions.captures does not count a capture whose
 * stream or context has ended. The functions take no lock and allocate nothing. They may be called
 * on any thread.
 */

#define GF_CAPTURES 16u /* further captures are only counted */

/*
 * Counts a capture before it begins on the stream `origin`. context: the stream's, or NULL if it is
 * unknown.
 */
void gf_captures_open(CUstream origin, CUcontext context);
/*
 * Counts the end of a capture, or that it did not begin. Does nothing if the capture began before
 * the hooks counted captures.
 */
void gf_captures_close(CUstream origin);

/*
 * Called before a call that may end a stream or a context. Return the captures that would end with
 * it, as bits, for gf_captures_left.
 */
unsigned gf_captures_of_stream(CUstream origin);
unsigned gf_captures_of_context(CUcontext context);
/* Called after that call. ended: the stream or the context has ended. */
void gf_captures_left(unsigned captures, bool ended);

/*
 * The streams that the calling thread could not list lately (preload/attach/submissions.h), so that
 * not each launch on such a stream asks the driver for facts about it. Each thread remembers a few
 * streams in its own memory. It forgets them when a stream or a context leaves the list, because
 * another one may then be listed, or may get the same handle.
 */

#define GF_UNLISTED_STREAMS 4u  /* of a thread */
#define GF_UNLISTED_RETRY 1000u /* after this many look-ups, the stream is tried again */

struct gf_unlisted {
    CUstream stream;
    int device;      /* to which the thread submits the stream's work */
    unsigned epoch;  /* gf_submissions_epoch before the thread tried to list the stream */
    unsigned looked; /* number of look-ups */
};

/* Returns NULL if the thread may try to list the stream. stream: not 0. */
const struct gf_unlisted *gf_unlisted_find(CUstream stream, unsigned epoch);
void gf_unlisted_add(CUstream stream, unsigned epoch, int device);
