/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by one table of checks whether a copy is staged or left to the driver.
 *
 * All functions but gf_admission_start may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_ADMISSION_H
#define GF_ENGINE_TRANSFER_COPY_ADMISSION_H

#include "abi/transfer_api.h"
#include "engine/transfer/staging/ring.h"
#include "engine/transfer/stats/copy_stats.h"

/* One copy between gf_admission_begin and gf_admission_end. */
struct gf_admission {
    const struct gf_copy_call *call; /* set by the caller; the other members are 0 */

    struct gf_copy_kind kind;   /* also set for copies that are not staged */
    struct gf_context *context; /* entered, or NULL */
    struct gf_ring *ring;       /* has memory and a stream, if the copy is to be staged */
    bool wants_duration;        /* the driver copies, and its call is timed (gf_rate_measure) */
    unsigned captures;          /* gf_captures_begun() before the driver was asked about captures */

    /* Only admission.c uses these members. */
    bool is_directed; /* the entry point names the direction */
    /* The reason small or few_threads, if it holds for every known pool; else none. */
    enum gf_bypass known_reason;
    CUstreamCaptureMode mode; /* the thread's own capture mode, while is_relaxed */
    bool is_relaxed;
};

/* Called once, after gf_setup_set and before any copy. */
void gf_admission_start(void);

/* The reason why no copy is staged in this process; NULL if copies are staged. */
const char *gf_admission_off(void);

/*
 * Whether the measured sizes (tuning.h) and the rate check apply. They apply if no option sets a
 * size.
 */
bool gf_admission_is_automatic(void);

/* The smallest copy in bytes that any pool stages while no other thread copies. */
size_t gf_admission_least(enum gf_direction direction);

/* The smallest copy that the hooks must offer, in bytes. SIZE_MAX: no copy is staged or counted. */
size_t gf_admission_offer_least(void);
/*
 * The same while at least *gf_admission_sharers() threads copy at once. That count is UINT_MAX if
 * each known pool has too few threads.
 */
size_t gf_admission_shared_least(void);
const _Atomic unsigned *gf_admission_sharers(void);

/*
 * Decides about admission->call. gf_bypass_none: the caller stages the copy, in the context and
 * through the ring of `admission`; h2d.c or d2h.c may still refuse it. Makes CUDA calls. The caller
 * calls gf_admission_end in every case; until then the thread's capture mode may be relaxed.
 */
enum gf_bypass gf_admission_begin(struct gf_admission *admission);
void gf_admission_end(struct gf_admission *admission);

#endif
