/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in memory from which `gpufeed top` reads the report of a running process: a memfd named
 * GF_LIVE_NAME, which the command opens through /proc/PID/task/TID/fd. It contains a header, then
 * the report as JSON. Only the process that the report describes writes the file. A reader loads
 * `sequence` before and after it reads the text. The text is consistent if both values are equal
 * and even.
 */
#ifndef GF_BASE_LIVE_FORMAT_H
#define GF_BASE_LIVE_FORMAT_H

#include <stdint.h>

#define GF_LIVE_NAME "gpufeed-live"
#define GF_LIVE_MAGIC "gpufeed\n"
/* Increased when the format changes so that older readers cannot read it. */
#define GF_LIVE_VERSION 1u

struct gf_live_header {
    char magic[8];
    uint32_t version;
    /*
     * The id of the process that the report describes. A forked child inherits the file; the id
     * then shows that the report is not about the child.
     */
    int32_t pid;
    /* Odd while the process changes the members below; 0 before the first text. */
    uint64_t sequence;
    uint64_t text_at;    /* offset of the text; the next text is written at another offset */
    uint64_t text_bytes; /* length of the text */
    uint64_t written_ns; /* time at which the text was written (CLOCK_MONOTONIC) */
};

#endif
