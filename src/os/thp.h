/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's settings of transparent huge pages from files. The functions may be called on
 * any thread.
 */
#ifndef GF_OS_THP_H
#define GF_OS_THP_H

#include "base/base.h"

struct gf_thp {
    bool on;          /* true if shared memory gets huge pages, always or on request */
    const char *file; /* the file that decides, relative to root; NULL if absent */
    char line[128];   /* content of the file: "always within_size [advise] never deny force" */
};

/* Reads the setting for shared memory and 2 MiB pages. root: see os/procfs.h. */
void gf_thp_read_shared(const char *root, struct gf_thp *ret);

/* The files that may decide, relative to root. */
extern const char *const gf_thp_shared_files[2];

/* Whether the word is the active setting, which is the word in brackets. */
bool gf_thp_chosen(const char *line, const char *word);

#endif
