/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the lines of a file in large blocks. Lines may hold zero bytes. */
#ifndef GF_CLI_REPORT_INPUT_LINE_READER_H
#define GF_CLI_REPORT_INPUT_LINE_READER_H

#include "cli/report/input/scan.h"

struct gf_line_reader {
    int fd;
    int error; /* errno of a failed read; 0 otherwise */
    char *buf;
    size_t size, from, to;
    uint64_t number; /* of the line that was read last, from 1 on */
    uint64_t bytes;  /* read from the file */
    bool ended;
};

/* The caller keeps the descriptor. */
void gf_line_reader_begin(struct gf_line_reader *reader, int fd);

/*
 * The next line without its newline; valid until the next call. A line of more than 4 MiB is cut to
 * its first bytes. False at the end of the file, and after an error.
 */
bool gf_line_reader_next(struct gf_line_reader *reader, struct gf_span *ret);

/*
 * The rest of the file from the line that was read last, which is included; at most `limit` bytes.
 * false if it is longer, or memory is short. Valid until the reader ends.
 */
bool gf_line_reader_rest(struct gf_line_reader *reader, struct gf_span line, size_t limit,
                         struct gf_span *ret);

void gf_line_reader_end(struct gf_line_reader *reader);

#endif
