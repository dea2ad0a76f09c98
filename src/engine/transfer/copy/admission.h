/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a copy is staged, and why not. */
#pragma once

#include "abi/transfer_api.h"
#include "engine/transfer/copy/ring.h"
#include "engine/transfer/stats.h"

/*
 * Decides whether a copy is staged or left to the driver. The decision is one table of checks in
 * admission.c.
 *
 * All functions except gf_admission_start may be called on any thread.
 */

/* The state of one copy between gf_admission_begin and gf_admission_end. */
struct gf_admission {
    const struct gf_copy_call *call; /* set by the caller, which sets all other members to 0 */

    struct gf_copy_kind kind;   /* also set for copies that are not staged */
    struct gf_context *context; /* the context that the copy has entered, or NULL */
    /* the context's ring; if the copy is to be staged, the ring has memory and a stream */
    struct gf_ring *ring;
    bool wants_duration; /* the copy is left to the driver, and the driver's call is timed */
    /* gf_captures_begun() before the query whether the stream is being captured */
    unsigned captures;

    /* Only admission.c uses these members. */
    bool is_directed; /* the function that the program called defines the direction */
    /*
     * The reason `small` or `few_threads`, if no known pool would stage the copy; else
     * gf_bypass_none.
     */
    enum gf_bypass known_reason;
    CUstreamCaptureMode mode; /* if is_relaxed, the capture mode that the thread had before */
    bool is_relaxed;
};

/*
 * Called once, after gf_setup was set, and before any copy. Sets copy_least, copy_least_shared and
 * copy_sharers.
 */
void gf_admission_start(struct gf_transfer_ops *ret);

/* The reason why no copy is staged in this process; NULL if copies are staged. */
const char *gf_admission_off(void);

/*
 * Whether the sizes from which staging pays are the measured ones (tuning.h), and the rate check
 * applies. Both hold if no option sets the smallest size.
 */
bool gf_admission_is_automatic(void);

/*
 * Returns the number of copying threads of the GPU that has the most; 0 before the first copy. Stores
 * the smallest copy that they stage while no other thread copies; SIZE_MAX: they stage none.
 */
unsigned gf_admission_threads(size_t ret_least[gf_direction_count]);

/*
 * Decides whether admission->call is staged; otherwise returns the reason why not. gf_bypass_none:
 * the caller stages the copy, in the context and through the ring of `admission`, but staged_copy.c
 * may still refuse it. Makes CUDA calls. The caller calls gf_admission_end in every case; until then
 * the thread's capture mode may be relaxed.
 */
enum gf_bypass gf_admission_begin(struct gf_admission *admission);
void gf_admission_end(struct gf_admission *admission);
