/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other files of the library in this process (src/hook/second.h). By symbol tables alone, as symbols.h: any thread, before
 * main, under the loader's lock.
 */
#ifndef GF_BASE_COPIES_H
#define GF_BASE_COPIES_H

#include "base/symbols.h"

/* Whether the object loaded there is one. A program may have a gpufeed_version of its own, but no door. */
bool gf_copy_is(uintptr_t base);

/* Whether one stands before the copy that holds the address `self`. */
bool gf_copy_before(const void *self);

/* The next one behind it. */
bool gf_copy_behind(const void *self, struct gf_symbol *ret);

#endif
