/* SPDX-License-Identifier: Apache-2.0 */
/* Builds text in the caller's buffer; text that does not fit is truncated. */
#ifndef GF_BASE_TEXTBUF_H
#define GF_BASE_TEXTBUF_H

#include "base/base.h"

struct gf_textbuf {
    char *buf;
    size_t size, at;
};

void gf_say(struct gf_textbuf *words, const char *format, ...) GF_PRINTF(2, 3);
/* Adds a number of bytes as "812 MiB" or "12.3 GiB". */
void gf_say_bytes(struct gf_textbuf *words, uint64_t bytes);

#endif
