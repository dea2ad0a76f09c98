/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's settings of transparent huge pages. Reads files only; any thread. */
#ifndef GF_OS_THP_H
#define GF_OS_THP_H

#include "base/base.h"

struct gf_thp {
    bool on;          /* shared memory gets huge pages, always or on request */
    const char *file; /* the file that decides, below root; NULL if absent */
    char line[128];   /* its content: "always within_size [advise] never deny force" */
};

/* The setting for shared memory and 2 MiB pages. root: os/procfs.h. */
void gf_thp_read_shared(const char *root, struct gf_thp *ret);

/* The files that may decide, below root. */
extern const char *const gf_thp_shared_files[2];

/* Whether the word is the one in brackets, which is the active setting. */
bool gf_thp_chosen(const char *line, const char *word);

#endif
