/* SPDX-License-Identifier: Apache-2.0 */
/* Detects two- and three-dimensional copies that are contiguous on both sides. Pure functions. */
#ifndef GF_PRELOAD_HOOK_CUDA_LINEAR_COPY_H
#define GF_PRELOAD_HOOK_CUDA_LINEAR_COPY_H

#include "base/base.h"
#include "abi/cuda.h"
#include "abi/transfer_api.h"

/*
 * Both return true if the driver would certainly accept the block, and if one linear copy would
 * copy the same bytes. They then set way, dst, src and bytes of *ret; the caller sets async and
 * stream. In every case they set ret->bytes to the size of the block: 0 if block is NULL, SIZE_MAX
 * on overflow.
 */
bool gf_linear_copy_2d(const CUDA_MEMCPY2D *block, struct gf_copy_call *ret);
bool gf_linear_copy_3d(const CUDA_MEMCPY3D *block, struct gf_copy_call *ret);

#endif
