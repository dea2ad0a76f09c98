/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory: decides which allocations and registrations of the program the library serves, and
 * leaves all others to the driver. The functions are those of struct gf_transfer_ops
 * (transfer_api.h).
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_PINNED_H
#define GF_ENGINE_TRANSFER_PINNED_PINNED_H

#include "abi/cuda.h"
#include "base/base.h"

struct gf_context;

bool gf_pinned_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
bool gf_pinned_free(void *p, CUresult *ret_result);
bool gf_pinned_unregister(void *p, CUresult *ret_result);
bool gf_pinned_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result);

/*
 * Replace the values that the driver reported for p by the values that it would have reported
 * without the library.
 */
void gf_pinned_flags(const void *p, unsigned *flags);
void gf_pinned_mapping_size(const void *p, size_t *bytes);

/* Called when the context, and with it its registrations, has ended. Makes no CUDA call. */
void gf_pinned_end(struct gf_context *context);

/*
 * If memory is short, frees the context's keepalive, and with it the mapping that it kept. The
 * driver's free waits for the context's work. The caller has entered the context, and relaxed the
 * capture mode.
 */
void gf_pinned_trim_if_short(const struct gf_context *context);

#endif
