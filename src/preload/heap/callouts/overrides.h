/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_OVERRIDES_H
#define GF_PRELOAD_HEAP_CALLOUTS_OVERRIDES_H

#include "base/base.h"

/*
 * Zeroes used pages by writing, if they are few or most of them are present. Otherwise purges them.
 * May change errno.
 */
void gf_overrides_zero(void *start, size_t size);

#endif
