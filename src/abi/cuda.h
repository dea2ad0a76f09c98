/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of pointers to those functions of the driver that hooks.def lists. The types come from
 * the toolkit's cuda.h.
 */
#pragma once

#include "abi/cuda_newer.h"

/* Some drivers export this function, but no header declares it. Driver 580 does not export it. */
__typeof__(cuGetProcAddress_v2) cuGetProcAddress_v2_ptsz;

/* A member is NULL where the installed driver lacks the function. */
struct gf_cuda {
#define GF_CU(symbol) __typeof__(symbol) *symbol;
#define GF_CU_USE(symbol) __typeof__(symbol) *symbol;
#include "abi/hooks.def"
};
