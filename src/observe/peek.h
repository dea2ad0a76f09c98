/* SPDX-License-Identifier: Apache-2.0 */
/* Reads this process's own memory where it may not be there: no fault, no signal. */
#ifndef GF_OBSERVE_PEEK_H
#define GF_OBSERVE_PEEK_H

#include "base/base.h"

/* How many bytes could be read. Keeps errno. */
size_t gf_peek_some(uintptr_t address, void *ret, size_t size);

/* All of them or none. */
static inline bool gf_peek(uintptr_t address, void *ret, size_t size)
{
    return gf_peek_some(address, ret, size) == size;
}

#endif
