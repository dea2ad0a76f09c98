/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators inside libraries of the process, under symbol names of their own. The library does not
 * interpose them, so neither placement nor the heap's statistics cover their memory.
 */
#ifndef GF_ENGINE_REPORT_EMBEDDED_H
#define GF_ENGINE_REPORT_EMBEDDED_H

#include "base/base.h"

#define GF_EMBEDDED_MAX 16

struct gf_embedded {
    struct gf_embedded_one {
        char object[96];       /* file name, without its folder */
        const char *allocator; /* "jemalloc" */
        /* The exported symbol by which it was found; NULL if found by file name. */
        const char *symbol;
    } one[GF_EMBEDDED_MAX];
    size_t count;
    unsigned long long changes; /* number of objects loaded and unloaded before the last reading */
};

/*
 * Reads the objects' symbol tables, if objects were loaded or unloaded since the last reading.
 * Takes some microseconds for each object, under the loader's lock, so no hook may call it.
 */
void gf_embedded_read(struct gf_embedded *embedded);

#endif
