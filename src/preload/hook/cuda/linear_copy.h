/* SPDX-License-Identifier: Apache-2.0 */
/* Detects two- and three-dimensional copies that are contiguous on both sides. Pure functions. */
#ifndef GF_PRELOAD_HOOK_CUDA_LINEAR_COPY_H
#define GF_PRELOAD_HOOK_CUDA_LINEAR_COPY_H

#include "base/base.h"
#include "abi/cuda.h"
#include "abi/transfer_api.h"

/*
 * True if the driver would certainly accept the block, and copy the same bytes as one linear copy.
 * Then sets way, dst, src and bytes of *ret; the caller sets async and stream. Always sets bytes to
 * the size of the block: 0 without a block, SIZE_MAX on overflow.
 */
bool gf_linear_copy_2d(const CUDA_MEMCPY2D *block, struct gf_copy_call *ret);
bool gf_linear_copy_3d(const CUDA_MEMCPY3D *block, struct gf_copy_call *ret);

#endif
