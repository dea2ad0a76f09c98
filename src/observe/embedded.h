/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators that libraries of the process carry inside, under names of their own: standing before
 * malloc does not see them, so neither placement nor the figures of the heap cover their memory.
 */
#ifndef GF_OBSERVE_EMBEDDED_H
#define GF_OBSERVE_EMBEDDED_H

#include "base/base.h"

#define GF_EMBEDDED_MAX 16

struct gf_embedded {
    struct gf_embedded_one {
        char object[96];       /* file name, without its folder */
        const char *allocator; /* "jemalloc" */
        const char *by;        /* the symbol that it exports; NULL: known by the name of the file */
    } one[GF_EMBEDDED_MAX];
    size_t count;
    unsigned long long changes; /* objects that had come and gone when it was read */
};

/*
 * Reads the objects' symbol tables under the loader's lock, some microseconds for each object, and
 * only when objects came or went. Not from a hook.
 */
void gf_embedded_read(struct gf_embedded *embedded);

#endif
