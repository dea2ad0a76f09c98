/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot is the pointer through which a loaded library calls memcpy: an entry of its global offset
 * table (relocation GLOB_DAT or JUMP_SLOT).
 */
#ifndef GF_ENGINE_TRANSFER_MEMCPY_MEMCPY_SLOT_H
#define GF_ENGINE_TRANSFER_MEMCPY_MEMCPY_SLOT_H

#include "base/base.h"

#include <link.h>

typedef void *gf_memcpy_fn(void *to, const void *from, size_t bytes);

/*
 * Replaces the object's slot if it points into libc. Returns whether the slot was replaced. If the
 * slot points elsewhere, it is kept: another library or the program interposes memcpy, or the slot
 * was replaced before. Called inside dl_iterate_phdr, so that the object stays loaded.
 */
bool gf_memcpy_slot_replace(const struct dl_phdr_info *object, gf_memcpy_fn *replacement);

#endif
