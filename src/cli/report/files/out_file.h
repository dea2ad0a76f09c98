/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all: it is written beside its place and then renamed. */
#ifndef GF_CLI_REPORT_FILES_OUT_FILE_H
#define GF_CLI_REPORT_FILES_OUT_FILE_H

#include "base/base.h"

#include <stdio.h>

struct gf_out_file {
    FILE *stream;
    const char *path; /* of the caller; "-" is standard output */
    char *beside;     /* the name until the rename; NULL if the path is written directly */
};

/*
 * Opens a file for writing, with mode 0666 less the umask. A path that exists and is no regular file
 * (a device, a pipe) is written directly. 0 or -errno.
 */
int gf_out_file_begin(struct gf_out_file *file, const char *path);

/*
 * Closes the file, and renames it to its place if `whole` is true and every write succeeded. 0 or
 * -errno.
 */
int gf_out_file_end(struct gf_out_file *file, bool whole);

#endif
