/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a file atomically: writes a new file in the same folder, and renames it. */
#ifndef GF_CLI_REPORT_FILES_OUT_FILE_H
#define GF_CLI_REPORT_FILES_OUT_FILE_H

#include "base/base.h"

#include <stdio.h>

struct gf_out_file {
    FILE *stream;
    const char *path; /* the caller keeps it; "-" is standard output */
    char *beside;     /* path of the new file; NULL if the path is written directly */
};

/*
 * Opens a file for writing, with mode 0666 minus the umask. A device or a pipe is written directly.
 * Returns 0 or -errno.
 */
int gf_out_file_begin(struct gf_out_file *file, const char *path);

/*
 * Closes the new file. If `whole` is true and each write succeeded, renames it to `path`, otherwise
 * deletes it. Returns 0 or -errno.
 */
int gf_out_file_end(struct gf_out_file *file, bool whole);

#endif
