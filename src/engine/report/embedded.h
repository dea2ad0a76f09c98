/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds allocators that are contained in libraries of the process under other symbol names than
 * malloc. libgpufeed does not interpose them, so neither the placement nor the heap's statistics
 * cover their memory.
 */
#pragma once

#include "base/base.h"

#define GF_EMBEDDED_MAX 16

struct gf_embedded {
    struct gf_embedded_one {
        char object[96];       /* file name of the library, without its folder */
        const char *allocator; /* name of the allocator, such as "jemalloc" */
        /*
         * The exported symbol by which the allocator was found; NULL if it was found by the file
         * name.
         */
        const char *symbol;
    } one[GF_EMBEDDED_MAX];
    size_t count;
    /* Number of objects that were loaded and unloaded before the last reading. */
    unsigned long long changes;
};

/*
 * If objects were loaded or unloaded since the last reading, searches the symbol tables of all
 * objects. Takes some microseconds for each object, under the loader's lock, so no hook may call
 * this function.
 */
void gf_embedded_read(struct gf_embedded *embedded);
