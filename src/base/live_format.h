/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in memory from which `gpufeed top` reads the report of a running process: a memfd named
 * GF_LIVE_NAME, which the command opens through /proc/PID/task/TID/fd. It contains a header, then
 * the report as JSON. Only the process writes it. A reader loads `sequence` before and after it
 * reads the text. The text is consistent if both values are equal and even.
 */
#ifndef GF_BASE_LIVE_FORMAT_H
#define GF_BASE_LIVE_FORMAT_H

#include <stdint.h>

#define GF_LIVE_NAME "gpufeed-live"
#define GF_LIVE_MAGIC "gpufeed\n"
#define GF_LIVE_VERSION 1u /* raised by changes that older readers cannot read */

struct gf_live_header {
    char magic[8];
    uint32_t version;
    /* The process that the report describes; its forked children inherit the file. */
    int32_t pid;
    uint64_t sequence;   /* odd while the process changes the fields below; 0: no text yet */
    uint64_t text_at;    /* offset of the text; the next text is written at another offset */
    uint64_t text_bytes; /* length of the text */
    uint64_t written_ns; /* CLOCK_MONOTONIC */
};

#endif
