/* SPDX-License-Identifier: Apache-2.0 */
/* A static pool for calls that come too early for any allocator: see boot.c. */
#pragma once

#include "preload/heap/family.h"

/*
 * The pool's functions for the malloc family. These functions may be called before relocation, and
 * only on one thread.
 */
#define GF_FAMILY(name, type, parameters, arguments) type gf_boot_##name parameters;
#include "abi/family.def"

/*
 * The table of the pool's functions. It serves the thread that decides the heap's mode, until that
 * thread has decided.
 */
extern const struct gf_family gf_family_boot;

/* Whether the block belongs to the pool. */
bool gf_boot_owns(const void *block);
/* The requested size of a block of the pool. */
size_t gf_boot_size(const void *block);
/* Whether the pool ever returned a block. */
bool gf_boot_used(void);
