/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the work that the program submits to GPUs, for the engine's sampler
 * (src/engine/gputime) and for staged copies, which hold their stream (src/engine/transfer/hold.h).
 * The table belongs to the preload library. Hooks write the records. The sampler reads them, and
 * clears the records of work that has completed. No lock protects the fields.
 */
#pragma once

#include "abi/cuda.h"
#include "base/atomic.h"
#include "base/base.h"

#define GF_SUBMITTERS 80u    /* number of counter sets of threads: preload/attach/counters.h */
#define GF_STREAM_SLOTS 512u /* a power of two */
#define GF_STREAM_PROBES 8u  /* number of slots that a look-up of a stream tries */
#define GF_SUBMIT_CONTEXTS 16u
#define GF_GRAPH_SLOTS 64u /* a power of two */
#define GF_VISIBLE_LEGACY 8u
/* Stored in place of a handle while a thread fills in the entry. No real handle has this value. */
#define GF_SUBMIT_FILLING ((uintptr_t)3)
#define GF_SUBMIT_DEVICES 16u
/*
 * The submitters with lower numbers belong to one thread each. The other ones are shared: there,
 * `stream` is a sum of GF_SUBMIT_SOME for each call, because it cannot be a handle.
 */
#define GF_SUBMITTERS_OWN 64u
#define GF_SUBMIT_SOME ((uintptr_t)8)
/* A bit of gf_submitter.stream: the stream is known to be non-blocking. Handles have no such bit. */
#define GF_SUBMIT_NON_BLOCKING ((uintptr_t)4)

/*
 * In gf_submitter.stream: a signal handler or a tool's callback has made another call, perhaps on
 * another stream, inside the call that the thread is inside.
 */
#define GF_SUBMIT_SEVERAL UINTPTR_MAX

/* The reasons for which hooks record submissions, as bits of gf_submit_table.on. */
enum gf_submit_use {
    gf_submit_sampled = 1,
    gf_submit_held = 2, /* staged copies may hold their streams */
};

/* Kinds of submitted work, as bits. */
enum gf_work {
    /* Kernels, graphs, memsets, host functions, and memory operations of streams. */
    gf_work_kernel = 1,
    gf_work_copy = 2,
    gf_work_comm = 4, /* kernels that NCCL launched */
};

/*
 * The stream's calls with visible results: those that the program may look at in its own memory
 * without a call, such as copies to page-locked memory and host functions. `made` counts these calls,
 * after the driver's call. `seen` is the value that `made` had before a wait for the stream, or before
 * the sampler found it idle. So if both are equal, the program may know all results (GPUFEED_ASYNC). A
 * predefined handle means a stream of the current context, so `context` is that of the results, or
 * GF_SUBMIT_SEVERAL if several contexts had some: they then stay pending.
 */
struct gf_visible {
    _Atomic uint32_t made, seen;
    /*
     * `made` when the stream was listed. Its unknown result counts for itself alone: what other streams
     * may see was counted when it was submitted.
     */
    _Atomic uint32_t first;
    _Atomic(uintptr_t) context;
};

/*
 * A stream that has its own handle. Work of the legacy stream is recorded in
 * gf_submit_table.legacy_work, and work of per-thread streams in gf_submitter.own_work.
 */
struct gf_stream_slot {
    _Alignas(64) _Atomic(uintptr_t) stream; /* 0: free */
    _Atomic(uintptr_t) context;
    /*
     * The kinds of work (bits of enum gf_work) that were submitted since the sampler last saw the
     * stream empty.
     */
    _Atomic unsigned work;
    _Atomic int device;
    /* True for a blocking stream. A query of the legacy stream then includes this stream's work. */
    _Atomic bool blocking;
    struct gf_visible visible;
};

/*
 * The record of a thread that submits work. If more than 64 threads submit work, several of them
 * share a record.
 */
struct gf_submitter {
    /*
     * The number of calls that submit work. A call is counted in `begun` before the driver's call,
     * and in `ended` after it.
     */
    _Alignas(64) _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    /* Kinds of work in the thread's per-thread streams, as in gf_stream_slot.work. */
    _Atomic unsigned own_work;
    /*
     * The kind of timed driver call that the thread is in: 1 + an enum gf_timed. 0: it is in no
     * such call.
     */
    _Atomic unsigned doing;
    /* The value of `begun` when the thread last waited for the GPU, and how often it has waited. */
    _Atomic uint64_t waited, waits;
    /*
     * Number of submissions to streams without a slot, because the table is full or a capture is
     * open.
     */
    _Atomic uint64_t unlisted;
    /*
     * The stream of the call that the thread is inside, with GF_SUBMIT_NON_BLOCKING; 0: it is inside
     * none. A Dekker-style handshake with copies: a hook stores `stream`, then loads `holds`; a copy
     * adds to `holds`, then loads `stream`.
     */
    _Atomic(uintptr_t) stream;
    /* The context of the copy that the thread is inside; 0: it is unknown. */
    _Atomic(uintptr_t) context;
    /*
     * A Dekker-style handshake of a copy that has waited for its stream with a hook that destroys the
     * stream. The copy stores `used_stream`, until it holds the stream or the driver has made it, then
     * loads `copy_stream`, its own stream; the hook replaces `copy_stream` by 0, then loads `used_stream`.
     */
    _Atomic(uintptr_t) used_stream, copy_stream;
    /* Of the thread's per-thread streams; unused in shared records. */
    struct gf_visible own_visible;
};

/* A context whose streams the sampler queries. */
struct gf_submit_context {
    _Atomic(uintptr_t) context; /* 0: free */
    _Atomic int device;
};

/*
 * The current gap of a device. The sampler opens a gap, and the next submission to the device ends
 * it.
 */
struct gf_submit_gap {
    _Alignas(64) _Atomic bool open;
    _Atomic uint64_t ended_ns; /* time at which the gap ended; 0 before that */
    _Atomic int ender;         /* id of the thread whose submission ended the gap; stored last */
    _Atomic(uintptr_t) python; /* PyThreadState of that thread; 0 if it has none */
};

/* How often an executable graph was launched. A graph whose slot another one has is not counted. */
struct gf_graph_slot {
    _Atomic(uintptr_t) graph; /* 0: free */
    _Atomic uint64_t launches;
};

struct gf_submit_table {
    /* Bits of enum gf_submit_use. While this is 0, hooks record nothing. */
    _Atomic unsigned on;
    /* The number of streams that copies hold now. */
    _Atomic unsigned holds;
    /* Kinds of work in all legacy streams, as in gf_stream_slot.work. */
    _Atomic unsigned legacy_work;
    /* Indexed by a hash of the context. */
    struct gf_visible legacy_visible[GF_VISIBLE_LEGACY];
    /* A stream without a count had visible results. It may be ordered with the legacy stream. */
    _Atomic bool uncounted_visible;
    /* A stream has waited for an event, and so for results of another stream. */
    _Atomic bool awaits_events;
    /*
     * The stream of the sampler's present query, or the context whose legacy stream it queries; 0:
     * none. A Dekker-style handshake: before each query, the sampler stores `asking`, then checks
     * that the handle is still in this table, and that `closed` and `captures` are 0. A hook that
     * ends a stream or a context first removes it from this table, and one that begins a capture
     * adds 1 to `captures`. Then the hook waits for the one query that is in progress.
     */
    _Alignas(64) _Atomic(uintptr_t) asking;
    _Atomic bool closed; /* the process ends, so no query begins */
    /* The thread that first called cuInit, and its PyThreadState; 0 if it has none. */
    pid_t starter;
    uintptr_t starter_python;
    /* The number of open captures (preload/attach/submissions.h). */
    _Atomic unsigned captures;
    struct gf_graph_slot graphs[GF_GRAPH_SLOTS];
    struct gf_submit_gap gaps[GF_SUBMIT_DEVICES];
    struct gf_submit_context contexts[GF_SUBMIT_CONTEXTS];
    struct gf_submitter submitters[GF_SUBMITTERS];
    _Atomic uint64_t listed[GF_STREAM_SLOTS / 64]; /* bit n: slot n may be in use */
    struct gf_stream_slot slots[GF_STREAM_SLOTS];
};

/* The slot that a look-up of the stream tries after `i` others. */
static inline struct gf_stream_slot *gf_stream_slot_probe(struct gf_submit_table *table,
                                                          CUstream stream, unsigned i)
{
    const uint64_t hash = (uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &table->slots[(hash + i) % GF_STREAM_SLOTS];
}

/*
 * Returns the stream's slot, or NULL. A stream that two threads have listed at the same time has two
 * slots. So each look-up has this order, and all threads find the same one.
 */
static inline struct gf_stream_slot *gf_stream_slot_find(struct gf_submit_table *table,
                                                         CUstream stream)
{
    for (unsigned i = 0; i < GF_STREAM_PROBES; i++) {
        struct gf_stream_slot *slot = gf_stream_slot_probe(table, stream, i);
        if (gf_load_acquire(&slot->stream) == (uintptr_t)stream)
            return slot;
    }
    return NULL;
}

/* Returns the count of the context's legacy stream. */
static inline struct gf_visible *gf_visible_of_legacy(struct gf_submit_table *table,
                                                      CUcontext context)
{
    const uint64_t hash = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &table->legacy_visible[hash % GF_VISIBLE_LEGACY];
}
