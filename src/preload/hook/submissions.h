/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what the program submits to the GPU, so that the engine knows when a GPU has nothing to
 * do. A submission costs two plain additions to words of the calling thread, and two tests of the
 * stream's slot. Only the first submission after the sampler saw the stream empty reads the clock.
 * No locks, no allocation. Any thread.
 */
#ifndef GF_PRELOAD_HOOK_SUBMISSIONS_H
#define GF_PRELOAD_HOOK_SUBMISSIONS_H

#include "abi/gputime_api.h"
#include "base/atomic.h"
#include "preload/hook/counters.h"

extern struct gf_submit_table gf_submissions;

/* One call that submits work. set: the thread's counter set; 0 if the call is not recorded. */
struct gf_submission {
    unsigned set;
    unsigned work; /* bits of enum gf_work */
    _Atomic unsigned *stream_work;
};

/* What is known about a stream when it is listed. False: it cannot be known now. */
struct gf_stream_facts {
    CUcontext context;
    int device;
    bool blocking;
};
typedef bool gf_stream_facts_fn(CUstream stream, struct gf_stream_facts *ret);

/*
 * Finds or lists the stream's slot. `facts` is called for a stream without a slot. NULL: no slot.
 * stream: a handle of its own.
 */
struct gf_stream_slot *gf_submissions_list(CUstream stream, gf_stream_facts_fn *facts);
/* Lists a context. True if it was not listed. */
bool gf_submissions_list_context(CUcontext context, int device);

/* Where a stream without a slot records its work; nothing reads it. */
extern _Atomic unsigned gf_submissions_elsewhere;

/*
 * The hooks of calls after which a stream or a context may be gone, or be captured. Between the two
 * calls the sampler queries nothing. pause waits for a question under way, for 10 s at most.
 */
void gf_submissions_pause(void);
void gf_submissions_resume(void);
/* Forgets a stream, or what belongs to a context; called between pause and resume. */
void gf_submissions_unlist(CUstream stream);
/* context NULL: all contexts of the device. device < 0: of all devices. */
void gf_submissions_unlist_context(CUcontext context, int device);
/* In a forked child, which has no sampler. */
void gf_submissions_in_child(void);

/* How to find the calling thread's PyThreadState; set once, before work is recorded. */
void gf_submissions_set_python(uintptr_t (*thread_state)(void));
/* The end of a gap: the clock is read. device: that the work was submitted to. */
void gf_submissions_end_gap(int device);

/* Publishes the timed call that the thread is in: 1 + an enum gf_timed, or 0. */
static inline void gf_submissions_doing(unsigned doing)
{
    const unsigned set = gf_thread.counters;
    if (gf_likely(set && set <= GF_COUNTER_OWN) && !gf_thread.guard)
        gf_store_relaxed(&gf_submissions.submitters[set - 1].doing, doing);
}

static inline unsigned gf_submissions_slot_of(CUstream stream)
{
    return (unsigned)(((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % GF_STREAM_SLOTS;
}

/* The slot at the stream's first place, if it is there; else NULL. */
static inline struct gf_stream_slot *gf_submissions_quick(CUstream stream)
{
    struct gf_stream_slot *slot = &gf_submissions.slots[gf_submissions_slot_of(stream)];
    return gf_likely(gf_load_relaxed(&slot->stream) == (uintptr_t)stream) ? slot : NULL;
}

static inline bool gf_submissions_on(void)
{
    return gf_load_relaxed(&gf_submissions.on);
}

#endif
