/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a file atomically: writes a new file in the same folder, and renames it. */
#ifndef GF_CLI_REPORT_FILES_OUT_FILE_H
#define GF_CLI_REPORT_FILES_OUT_FILE_H

#include "base/output_file.h"

#include <stdio.h>

struct gf_out_file {
    FILE *stream;
    struct gf_output output;
};

/* Opens the file by gf_output_begin; "-" is standard output. Returns 0 or -errno. */
int gf_out_file_begin(struct gf_out_file *file, const char *path, enum gf_output_flags flags);

/*
 * Closes the new file. If `whole` is true and each write succeeded, renames it to the path,
 * otherwise deletes it. Returns 0 or -errno.
 */
int gf_out_file_end(struct gf_out_file *file, bool whole);

#endif
