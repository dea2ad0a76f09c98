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
    uint64_t number; /* number of the last line, from 1 on */
    uint64_t bytes;  /* bytes that were read from the file */
    bool ended;
};

/* The caller keeps the descriptor. */
void gf_line_reader_begin(struct gf_line_reader *reader, int fd);

/*
 * Returns the next line without its newline, valid until the next call. Lines are cut after 4 MiB.
 * False at the end of the file, and after an error.
 */
bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret);

/*
 * Returns the rest of the file, beginning with `line`, the last line that was read. Valid until
 * gf_line_reader_end. False if it is longer than `limit` bytes, or after an error.
 */
bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret);

void gf_line_reader_end(struct gf_line_reader *reader);

#endif
