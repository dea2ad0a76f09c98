/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutants: tests/diff builds the transfer rooms once more with GF_MUTANTS. There the environment
 * names one mutation, and some test must fail with it. The product contains none of this.
 */
#ifndef GF_ENGINE_TRANSFER_SETUP_MUTATION_H
#define GF_ENGINE_TRANSFER_SETUP_MUTATION_H

#ifdef GF_MUTANTS
#include "abi/cuda.h"
#include "base/base.h"

bool gf_mutated(const char *name);
void gf_mutation_hold(const char *name); /* takes a lock, if this mutation is active */
void gf_mutation_drop(const char *name);
/*
 * With this mutation a freed buffer is kept and handed out again, although the device may still use
 * it.
 */
bool gf_mutation_keep(void *p, CUresult *ret_result);
bool gf_mutation_again(void **pp, size_t bytes, CUresult *ret_result);
#define GF_MUTATED(name) gf_mutated(#name)
#define GF_MUTATION_HOLD(name) gf_mutation_hold(#name)
#define GF_MUTATION_DROP(name) gf_mutation_drop(#name)
#else
#define GF_MUTATED(name) false
#define GF_MUTATION_HOLD(name) ((void)0)
#define GF_MUTATION_DROP(name) ((void)0)
#define gf_mutation_keep(p, ret_result) false
#define gf_mutation_again(pp, bytes, ret_result) false
#endif

#endif
