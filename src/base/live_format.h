/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in memory by which a running process shows its report to `gpufeed top`: a memfd named
 * GF_LIVE_NAME, which the command opens through /proc/PID/task/TID/fd. A header, then the report as
 * JSON. Only the process writes it. A reader compares `sequence` before and after it reads: the text
 * is whole if both are equal and even.
 */
#ifndef GF_BASE_LIVE_FORMAT_H
#define GF_BASE_LIVE_FORMAT_H

#include <stdint.h>

#define GF_LIVE_NAME "gpufeed-live"
#define GF_LIVE_MAGIC "gpufeed\n"
#define GF_LIVE_VERSION 1u /* raised if an older reader could not read the file */

struct gf_live_header {
    char magic[8];
    uint32_t version;
    int32_t pid;         /* a forked child inherits the file, but is not described by it */
    uint64_t sequence;   /* odd while the process changes the fields below; 0: no text yet */
    uint64_t text_at;    /* where the text begins; the process writes the next one elsewhere */
    uint64_t text_bytes; /* length of the text */
    uint64_t written_ns; /* CLOCK_MONOTONIC */
};

#endif
