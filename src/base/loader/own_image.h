/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other copies of the library in this process (src/preload/hook/originals/duplicate_load.h). Reads
 * only symbol tables, as symbols.h does: any thread, before main, under the loader's lock.
 */
#ifndef GF_BASE_LOADER_OWN_IMAGE_H
#define GF_BASE_LOADER_OWN_IMAGE_H

#include "base/loader/symbols.h"

/*
 * Whether the object loaded at base is a copy of this library. A copy defines both gpufeed_version
 * and cuGetProcAddress; a program may define one of these.
 */
bool gf_own_image_is(uintptr_t base);

/* Whether another copy precedes the one that contains the address `self`, in search order. */
bool gf_own_image_before(const void *self);

/*
 * The next copy after the object that contains `self`, or the first copy if `self` is NULL. False
 * if not found.
 */
bool gf_own_image_behind(const void *self, struct gf_symbol *ret);

#endif
