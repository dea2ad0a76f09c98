/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes to be made on purpose: tests/diff builds this layer once more with GF_PLANTS, names one of
 * them in the environment, and some test must notice. In the product nothing is left of it.
 */
#ifndef GF_TRANSFER_PLANT_H
#define GF_TRANSFER_PLANT_H

#ifdef GF_PLANTS
#include "base/base.h"
#include "hook/cuda.h"

bool gf_planted(const char *name);
void gf_plant_hold(const char *name); /* a lock, if that is planted */
void gf_plant_drop(const char *name);
/* A freed buffer is kept, though it may be busy, and given out again. */
bool gf_plant_keep(void *p, CUresult *ret_result);
bool gf_plant_again(void **pp, size_t bytes, CUresult *ret_result);
#define GF_PLANTED(name) gf_planted(#name)
#define GF_PLANT_HOLD(name) gf_plant_hold(#name)
#define GF_PLANT_DROP(name) gf_plant_drop(#name)
#else
#define GF_PLANTED(name) false
#define GF_PLANT_HOLD(name) ((void)0)
#define GF_PLANT_DROP(name) ((void)0)
#define gf_plant_keep(p, ret_result) false
#define gf_plant_again(pp, bytes, ret_result) false
#endif

#endif
