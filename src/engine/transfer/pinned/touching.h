/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Touching: several threads populate the pages of a range, in steps between which they read the
 * headroom again. The caller may leave the last pages to the helpers while it registers the range:
 * the driver's walk through the pages begins at the first one, and populates a page that is still
 * absent. Any thread; waits for helpers only.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_TOUCHING_H
#define GF_ENGINE_TRANSFER_PINNED_TOUCHING_H

#include "engine/transfer/pinned/units.h"
#include "engine/transfer/pool/job.h"

struct gf_pool;
struct gf_range_policy;

/* It stays at its address until it has ended. */
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

    bool open; /* helpers may be at work */
    _Atomic uint64_t touched;
    _Atomic int error;
};

/* Touches all pages. Returns 0 or -errno. */
int gf_touching_run(struct gf_touching *touching);

/*
 * Touches most pages, and returns while helpers touch the rest; all pages, if the range is small,
 * too few helpers run, or the headroom is too small for the rest. On an error, which it returns, no
 * helper is at work. Otherwise the caller calls gf_touching_end.
 */
int gf_touching_begin(struct gf_touching *touching);

/*
 * Ends what gf_touching_begin began, and waits for the helpers. `all`: after the remaining pages
 * are touched, which takes little time if the driver has populated them; otherwise no helper begins
 * another unit. Returns 0, or the -errno of a helper since gf_touching_begin.
 */
int gf_touching_end(struct gf_touching *touching, bool all);

/*
 * Whether `bytes` bytes can be touched without coming near a limit of the control groups, of the
 * host, or of the policy's nodes (NULL: any node). Touching pages beyond a limit invokes the OOM
 * killer, where the driver's own call would return an error.
 */
bool gf_touching_fits(size_t bytes, const struct gf_range_policy *policy);

#endif
