/* SPDX-License-Identifier: Apache-2.0 */
/* A static pool for calls that come too early for any allocator: see boot.c. */
#ifndef GF_PRELOAD_HEAP_BOOT_H
#define GF_PRELOAD_HEAP_BOOT_H

#include "preload/heap/family.h"

/* The functions of the family. They may be called before relocation, and only on one thread. */
#define GF_FAMILY(name, type, parameters, arguments) type gf_boot_##name parameters;
#include "abi/family.def"

/* Serves the deciding thread while the mode is being decided. */
extern const struct gf_family gf_family_boot;

/* Whether the block belongs to the pool. */
bool gf_boot_owns(const void *block);
/* The size that the caller of such a block asked for. */
size_t gf_boot_size(const void *block);
/* Whether the pool ever handed out a block. */
bool gf_boot_used(void);

#endif
