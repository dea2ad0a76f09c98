/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_BASE_PYSTACK_PYSTACK_MEMORY_H
#define GF_BASE_PYSTACK_PYSTACK_MEMORY_H

#include "base/base.h"

/* Reads the memory of the process that runs Python. */
struct gf_pystack_memory {
    /* Copies up to `size` bytes from `address` to ret; returns the number of bytes copied. */
    size_t (*read)(void *closure, uintptr_t address, void *ret, size_t size);
    void *closure;
};

#endif
