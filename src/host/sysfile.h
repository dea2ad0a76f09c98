/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of /proc and /sys, below a root that tests and recorded machines move. */
#ifndef GF_HOST_SYSFILE_H
#define GF_HOST_SYSFILE_H

#include "base/cpus.h"

#define GF_SYSFILE_PATH_MAX 2048

/*
 * Reads root + "/" + path into buf, terminated and without trailing white space; what does not fit
 * is cut off. root "" or NULL is this system's. The length, or -errno. Allocates nothing.
 */
int gf_sysfile_read(char *buf, size_t size, const char *root, const char *format, ...)
    GF_PRINTF(4, 5);

/* A file that holds one list of CPUs or of nodes; *ret is untouched on failure. */
int gf_sysfile_cpus(struct gf_cpus *ret, const char *root, const char *path);
int gf_sysfile_nodes(struct gf_nodes *ret, const char *root, const char *path);

/* The value behind "key:" at the start of a line of text, white space skipped; NULL when absent. */
const char *gf_sysfile_field(const char *text, const char *key);

/* The number behind a line's first word, as in memory.stat; 0 where no line begins with it. */
uint64_t gf_sysfile_value(const char *text, const char *key);

#endif
