/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"

/*
 * The limit of freed pinned memory that is kept for reuse: mappings that keepalives of small blocks
 * hold (pinned_cache.h), and mappings of larger buffers (kept_mapping.h). Small blocks come first.
 * The limit depends on the headroom, which is read once a second. Any thread; no CUDA call.
 */

/*
 * Called when memory is short. For the next second nothing is kept, and no keepalive is allocated.
 */
void gf_kept_limit_short(void);

/*
 * Decides whether to prefault memory of the program before the program registers it. The functions
 * may be called on any thread.
 */

/*
 * Whether prefaulting pays and is harmless: most of the pages are absent, and the whole range is
 * writable memory as gf_prefault_is_plain says. Touches no page.
 */
bool gf_prefault_pays(const void *at, size_t bytes);

/*
 * Whether the whole range is writable, and either private and anonymous, or shared memory: anonymous,
 * memfd, System V, a file in /dev/shm, reserved huge pages. Reads `file`, which has the format of
 * /proc/self/maps.
 */
bool gf_prefault_is_plain(const char *file, uintptr_t start, uintptr_t end);

/*
 * Pinned memory: decides which allocations and registrations of the program the library serves, and
 * leaves all others to the driver. The functions are those of struct gf_transfer_ops
 * (transfer_api.h).
 */

struct gf_context;

bool gf_pinned_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
bool gf_pinned_free(void *p, CUresult *ret_result);
bool gf_pinned_unregister(void *p, CUresult *ret_result);
bool gf_pinned_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result);

void gf_pinned_flags(const void *p, unsigned *flags);

/* Called when the context, and with it its registrations, has ended. Makes no CUDA call. */
void gf_pinned_end(struct gf_context *context);

/*
 * If memory is short, frees the context's keepalive, and with it the mapping that it kept. The
 * driver's free waits for the context's work. The caller has entered the context, and relaxed the
 * capture mode.
 */
void gf_pinned_trim_if_short(const struct gf_context *context);
