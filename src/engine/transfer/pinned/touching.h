/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Touching: several threads populate the pages of a range, in steps between which they read the
 * headroom again. Any thread; waits for helpers only.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_TOUCHING_H
#define GF_ENGINE_TRANSFER_PINNED_TOUCHING_H

#include "engine/transfer/pinned/units.h"
#include "engine/transfer/pieces.h"

struct gf_pool;
struct gf_range_policy;

struct gf_touching {
    struct gf_job job;
    /* The caller sets these. */
    struct gf_pool *pool; /* NULL: the caller touches all pages */
    struct gf_units units;
    char *at;
    /*
     * the policy of the library's fresh memory, which may be touched by stores; NULL: the program's
     * memory
     */
    const struct gf_range_policy *policy;
    bool reserved; /* reserved huge pages, which no headroom limits */

    _Atomic uint64_t touched;
    _Atomic int error;
};

/* Touches all pages. Returns 0 or -errno. */
int gf_touching_run(struct gf_touching *touching);

/*
 * Whether `bytes` bytes can be touched without coming near a limit of the control groups, of the
 * host, or of the policy's nodes (NULL: any node). Touching pages beyond a limit invokes the OOM
 * killer, where the driver's own call would return an error.
 */
bool gf_touching_fits(size_t bytes, const struct gf_range_policy *policy);

#endif
