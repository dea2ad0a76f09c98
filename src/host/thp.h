/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's settings of transparent huge pages say. Reads files only; any thread. */
#ifndef GF_HOST_THP_H
#define GF_HOST_THP_H

#include "base/base.h"

struct gf_thp {
    bool on;          /* shared memory gets huge pages, at least where it asks for them */
    const char *file; /* that decides, below the root; NULL: there is none */
    char line[128];   /* what it says: "always within_size [advise] never deny force" */
};

/* Of 2 MiB, for shared memory. root: host/sysfile.h. */
void gf_thp_read_shared(const char *root, struct gf_thp *ret);

/* Which files may decide, below the root. */
extern const char *const gf_thp_shared_files[2];

/* Whether the word is the one in brackets. */
bool gf_thp_chosen(const char *line, const char *word);

#endif
