/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory: which of the program's allocations and registrations are served here, and which
 * are the driver's. Signatures and answers as in hook/transfer_api.h.
 */
#ifndef GF_TRANSFER_PINNED_H
#define GF_TRANSFER_PINNED_H

#include "base/base.h"
#include "hook/cuda.h"

bool gf_pinned_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result);
bool gf_pinned_free(void *p, CUresult *ret_result);
bool gf_pinned_unregister(void *p, CUresult *ret_result);
bool gf_pinned_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result);

/* The driver has said these flags of p: makes them those that it would have said without us. */
void gf_pinned_flags(const void *p, unsigned *flags);
void gf_pinned_mapping(const void *p, size_t *bytes);

/* The context with this id is gone. */
void gf_pinned_forget(uint64_t context);

#endif
