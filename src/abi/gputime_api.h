/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hooks record about submitted work, for the engine's sampler (src/engine/gputime). The table
 * belongs to the preload library. Hooks write it; the sampler reads it, and clears work that it saw
 * complete. No field is protected by a lock.
 */
#ifndef GF_ABI_GPUTIME_API_H
#define GF_ABI_GPUTIME_API_H

#include "abi/cuda.h"
#include "base/base.h"

#define GF_SUBMITTERS 80u    /* threads with a set of counters: preload/hook/counters.h */
#define GF_STREAM_SLOTS 512u /* a power of two */
#define GF_STREAM_PROBES 8u  /* slots that a stream may have */
#define GF_SUBMIT_CONTEXTS 16u
/* In place of a handle: an entry that is being filled. No handle has this value. */
#define GF_SUBMIT_FILLING ((uintptr_t)3)
#define GF_SUBMIT_DEVICES 16u

/* The kinds of work that a stream was given, as bits. */
enum gf_work {
    gf_work_kernel = 1, /* kernels, graphs, memsets, host functions, waits and writes of values */
    gf_work_copy = 2,
    gf_work_comm = 4, /* submitted by a communication library */
};

/* A stream with a handle of its own. The legacy stream and per-thread streams have other records. */
struct gf_stream_slot {
    _Alignas(64) _Atomic(uintptr_t) stream; /* 0: free */
    _Atomic(uintptr_t) context;
    /* What the stream was given since it was last seen empty, as bits of enum gf_work. */
    _Atomic unsigned work;
    _Atomic int device;
    /* The legacy stream's query covers it. */
    _Atomic bool blocking;
};

/* A thread that submits work. Beyond 64 threads, several share one. */
struct gf_submitter {
    /* Calls that submit work: begun before the driver's call, ended after it. */
    _Alignas(64) _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic unsigned own_work; /* of its per-thread streams, as gf_stream_slot.work */
    _Atomic unsigned doing;    /* the timed driver call it is in: 1 + an enum gf_timed; else 0 */
    /* Submissions to streams that are in no slot: the table is full, or a capture is open. */
    _Atomic uint64_t unlisted;
};

/* A context whose streams are queried. */
struct gf_submit_context {
    _Atomic(uintptr_t) context; /* 0: free */
    _Atomic int device;
};

/* The present gap of a device: the sampler opens it, the first submission ends it. */
struct gf_submit_gap {
    _Alignas(64) _Atomic bool open;
    _Atomic uint64_t ended_ns; /* 0 until then */
    _Atomic int ender;         /* the thread that submitted; stored last */
    _Atomic(uintptr_t) python; /* its PyThreadState; 0: it has none */
};

struct gf_submit_table {
    /* False: nothing is recorded. Set by the engine, once. */
    _Atomic bool on;
    _Atomic unsigned legacy_work; /* of all legacy streams, as gf_stream_slot.work */
    /*
     * A Dekker-style handshake: the sampler sets `asking`, then looks at `closed` and `captures`. A
     * hook that ends a stream or a context, or begins a capture, adds to `closed` and then waits
     * until `asking` is false.
     */
    _Alignas(64) _Atomic bool asking;
    _Atomic unsigned closed;
    _Atomic unsigned captures; /* that have begun and not ended; or ended with their stream */
    struct gf_submit_gap gaps[GF_SUBMIT_DEVICES];
    struct gf_submit_context contexts[GF_SUBMIT_CONTEXTS];
    struct gf_submitter submitters[GF_SUBMITTERS];
    _Atomic uint64_t listed[GF_STREAM_SLOTS / 64]; /* bit n: slot n may be in use */
    struct gf_stream_slot slots[GF_STREAM_SLOTS];
};

#endif
