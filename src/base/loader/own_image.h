/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds other copies of the library in this process (src/preload/hook/originals/duplicate_load.h).
 * The functions only read symbol tables. They may be called on any thread, before main and under
 * the loader's lock.
 */
#ifndef GF_BASE_LOADER_OWN_IMAGE_H
#define GF_BASE_LOADER_OWN_IMAGE_H

#include "base/loader/symbols.h"

/*
 * Whether the object loaded at base is a copy of this library. A copy defines both gpufeed_version
 * and cuGetProcAddress; a program may define one of these.
 */
bool gf_own_image_is(uintptr_t base);

/*
 * Whether another copy of the library precedes, in search order, the copy that contains the address
 * `self`.
 */
bool gf_own_image_before(const void *self);

/*
 * Finds the next copy after the object that contains the address `self`, or the first copy if
 * `self` is NULL. Returns false if not found.
 */
bool gf_own_image_behind(const void *self, struct gf_symbol *ret);

#endif
