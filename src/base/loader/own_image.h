/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other copies of the library in this process (src/preload/hook/resolve/duplicate_load.h). Reads
 * only symbol tables, as symbols.h does: any thread, before main, under the loader's lock.
 */
#ifndef GF_BASE_LOADER_OWN_IMAGE_H
#define GF_BASE_LOADER_OWN_IMAGE_H

#include "base/loader/symbols.h"

/*
 * Whether the object loaded there is a copy: it defines gpufeed_version and cuGetProcAddress. A
 * program may define one of them.
 */
bool gf_own_image_is(uintptr_t base);

/* Whether a copy precedes the copy that holds the address `self`. */
bool gf_own_image_before(const void *self);

/* The next copy after it. */
bool gf_own_image_behind(const void *self, struct gf_symbol *ret);

#endif
