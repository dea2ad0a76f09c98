/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of two and three dimensions that are one line of bytes at both ends. No state, no calls.
 */
#ifndef GF_HOOK_SHAPES_H
#define GF_HOOK_SHAPES_H

#include "base/base.h"
#include "hook/cuda.h"
#include "hook/transfer_api.h"

/*
 * True if the driver would accept the shape and copy the very bytes from way, dst, src and bytes of
 * *ret, which are set then; any doubt is false. async and stream are the caller's to set. bytes is
 * what is in the block in any case: 0 without one, SIZE_MAX for more than can be.
 */
bool gf_shape_2d(const CUDA_MEMCPY2D *block, struct gf_copy_call *ret);
bool gf_shape_3d(const CUDA_MEMCPY3D *block, struct gf_copy_call *ret);

#endif
