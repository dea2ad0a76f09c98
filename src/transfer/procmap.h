/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of one mapping of this process (PROCMAP_QUERY, Linux 6.11), without reading all. */
#ifndef GF_TRANSFER_PROCMAP_H
#define GF_TRANSFER_PROCMAP_H

#include "base/base.h"

struct gf_procmap {
    uintptr_t start, end;
    size_t page;
    bool shared;
    char name[256]; /* as in /proc/self/maps; "" none, or one longer than this */
};

/* The mapping at an address; false where there is none, or the kernel does not say. Keeps errno. */
bool gf_procmap_read(uintptr_t at, struct gf_procmap *ret);

#endif
