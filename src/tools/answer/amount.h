/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/text_pool.h"

/* Format numbers with units, by gf_text. */

/* A duration: "812 us", "16.9 ms", "8.2 s", "2.1 h". */
const char *gf_amount_time(double seconds);
/* A size: "8 MiB", "1.5 GiB". */
const char *gf_amount_bytes(double bytes);
/* A rate: "3.6 GB/s", "83 MB/s", "0.5 MB/s". */
const char *gf_amount_rate(double gb_per_s);
/* A share: "0.3 %", "67 %". */
const char *gf_amount_share(double part, double whole);
/*
 * A time as local time, without or with the date: "08:51:09", "2026-11-23 08:51:09"; "-" if the
 * time is unknown.
 */
const char *gf_amount_clock(double time, bool with_date);
/* A number with its noun: "1 stall", "12 stalls". */
const char *gf_amount_of(double count, const char *noun);

/* A list of sentences. */
struct gf_lines {
    struct gf_text_pool texts;
    const char **list; /* in the order in which they were added */
    size_t count;
};

/* Adds a sentence, unless the list already contains it. */
void gf_lines_add(struct gf_lines *lines, const char *format, ...) GF_PRINTF(2, 3);
void gf_lines_free(struct gf_lines *lines);
