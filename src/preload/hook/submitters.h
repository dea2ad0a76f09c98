/* SPDX-License-Identifier: Apache-2.0 */
/* The records of the threads that submit work, by the number of their counter set. */
#ifndef GF_PRELOAD_HOOK_SUBMITTERS_H
#define GF_PRELOAD_HOOK_SUBMITTERS_H

#include "abi/gputime_api.h"
#include "base/atomic.h"

extern struct gf_submit_table gf_submissions;

/* Whether the thread of a set is inside a driver call. */
static inline bool gf_submitter_is_inside(unsigned set)
{
    const struct gf_submitter *submitter = &gf_submissions.submitters[set];
    return gf_load_relaxed(&submitter->doing) || gf_load_relaxed(&submitter->stream) ||
           gf_load_relaxed(&submitter->begun) != gf_load_relaxed(&submitter->ended);
}

/*
 * Counts the calls of a set as ended. The thread that owned the set has ended inside them, and the
 * caller owns the set now.
 */
static inline void gf_submitter_end_calls(unsigned set)
{
    struct gf_submitter *submitter = &gf_submissions.submitters[set];
    gf_store_relaxed(&submitter->doing, 0);
    gf_store_relaxed(&submitter->stream, 0);
    gf_store_relaxed(&submitter->context, 0);
    gf_store_release(&submitter->ended, gf_load_relaxed(&submitter->begun));
}

#endif
