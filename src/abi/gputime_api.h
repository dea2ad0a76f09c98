/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of submitted work, for the engine's sampler (src/engine/gputime). The table belongs to
 * the preload library. Hooks write the records. The sampler reads them, and clears work that has
 * completed. No lock protects the fields.
 */
#ifndef GF_ABI_GPUTIME_API_H
#define GF_ABI_GPUTIME_API_H

#include "abi/cuda.h"
#include "base/base.h"

#define GF_SUBMITTERS 80u    /* threads with a set of counters: preload/hook/counters.h */
#define GF_STREAM_SLOTS 512u /* a power of two */
#define GF_STREAM_PROBES 8u  /* a look-up of a stream tries so many slots */
#define GF_SUBMIT_CONTEXTS 16u
/* Replaces the handle while an entry is filled. No handle has this value. */
#define GF_SUBMIT_FILLING ((uintptr_t)3)
#define GF_SUBMIT_DEVICES 16u

/* Kinds of submitted work, as bits. */
enum gf_work {
    gf_work_kernel = 1, /* kernels, graphs, memsets, host functions, waits and writes of values */
    gf_work_copy = 2,
    gf_work_comm = 4, /* submitted by a communication library */
};

/* A stream with a handle of its own. The legacy stream and per-thread streams have other records. */
struct gf_stream_slot {
    _Alignas(64) _Atomic(uintptr_t) stream; /* 0: free */
    _Atomic(uintptr_t) context;
    /*
     * The kinds of work (bits of enum gf_work) submitted since the sampler last saw the stream
     * empty.
     */
    _Atomic unsigned work;
    _Atomic int device;
    /* A query of the legacy stream covers this stream. */
    _Atomic bool blocking;
};

/* A thread that submits work. If more than 64 threads submit, several share a record. */
struct gf_submitter {
    /* Calls that submit work: counted in `begun` before the driver's call, in `ended` after it. */
    _Alignas(64) _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic unsigned own_work; /* work of its per-thread streams, as gf_stream_slot.work */
    /* The timed driver call in progress: 1 + an enum gf_timed; 0: none. */
    _Atomic unsigned doing;
    /*
     * Number of submissions to streams without a slot, because the table is full or a capture is
     * open.
     */
    _Atomic uint64_t unlisted;
};

/* A context whose streams are queried. */
struct gf_submit_context {
    _Atomic(uintptr_t) context; /* 0: free */
    _Atomic int device;
};

/* The current gap of a device. The sampler opens it; the first submission ends it. */
struct gf_submit_gap {
    _Alignas(64) _Atomic bool open;
    _Atomic uint64_t ended_ns; /* end of the gap; 0 while it is open */
    _Atomic int ender;         /* the thread that submitted; stored last */
    _Atomic(uintptr_t) python; /* PyThreadState of that thread; 0 if it has none */
};

struct gf_submit_table {
    /* False: hooks record nothing. The engine sets it once. */
    _Atomic bool on;
    _Atomic unsigned legacy_work; /* work of all legacy streams, as gf_stream_slot.work */
    /*
     * A Dekker-style handshake. The sampler sets `asking`, then loads `closed` and `captures`. A
     * hook that ends a stream or a context, or begins a capture, adds to `closed` and then waits
     * until `asking` is false.
     */
    _Alignas(64) _Atomic bool asking;
    _Atomic unsigned closed;
    /* Open captures; also those that ended by the destruction of their stream. */
    _Atomic unsigned captures;
    struct gf_submit_gap gaps[GF_SUBMIT_DEVICES];
    struct gf_submit_context contexts[GF_SUBMIT_CONTEXTS];
    struct gf_submitter submitters[GF_SUBMITTERS];
    _Atomic uint64_t listed[GF_STREAM_SLOTS / 64]; /* bit n: slot n may be in use */
    struct gf_stream_slot slots[GF_STREAM_SLOTS];
};

#endif
