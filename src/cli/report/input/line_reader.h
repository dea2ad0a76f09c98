/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file line by line, in large blocks. Lines may contain zero bytes. */
#ifndef GF_CLI_REPORT_INPUT_LINE_READER_H
#define GF_CLI_REPORT_INPUT_LINE_READER_H

#include "cli/report/input/scan.h"

struct gf_line_reader {
    int fd;
    int error; /* errno of a failed read; 0 otherwise */
    char *buf;
    size_t size, from, to;
    uint64_t number; /* number of the line that was read last; the first line is 1 */
    uint64_t bytes;  /* number of bytes that were read from the file */
    bool ended;
};

/* Begins to read from fd. The caller closes fd. */
void gf_line_reader_begin(struct gf_line_reader *reader, int fd);

/*
 * Returns the next line without its newline, valid until the next call. Lines are cut after 4 MiB.
 * Returns false at the end of the file, and after an error.
 */
bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret);

/*
 * Returns `line`, which must be the last line that was read, together with the rest of the file.
 * The text is valid until gf_line_reader_end. Returns false if the text is longer than `limit`
 * bytes, or after an error.
 */
bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret);

void gf_line_reader_end(struct gf_line_reader *reader);

#endif
