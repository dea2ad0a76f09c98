/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

#include <stdarg.h>

/*
 * Formats text without allocating memory or reading the locale, and is async-signal-safe. printf
 * guarantees none of this, so it must not be called inside malloc.
 */

/*
 * Supports %s %c %% %p, and d i u x with no length modifier, l, ll or z. Field width, the flags '-'
 * and '0', the precision of %s ("%.*s" too), and %m for the error text of errno work as in printf.
 * Unknown conversions are copied as written. Like snprintf, returns the length that the whole text
 * needs. If size > 0, buf is always terminated. Keeps errno.
 */
int gf_fmt(char *buf, size_t size, const char *format, ...) GF_PRINTF(3, 4);
int gf_vfmt(char *buf, size_t size, const char *format, va_list args) GF_PRINTF(3, 0);

/* Builds text in the caller's buffer; text that does not fit is truncated. */

struct gf_textbuf {
    char *buf;
    size_t size, at;
};

void gf_say(struct gf_textbuf *words, const char *format, ...) GF_PRINTF(2, 3);
/* Adds a number of bytes as "640 KiB", "812 MiB" or "12.3 GiB". */
void gf_say_bytes(struct gf_textbuf *words, uint64_t bytes);

/*
 * Writes one code point as UTF-8, without a terminating null. Returns the number of bytes written.
 */
static inline size_t gf_utf8_encode(uint32_t point, char ret[4])
{
    static const unsigned char begin[] = {0, 0xc0, 0xe0, 0xf0};
    const unsigned more = (point >= 0x80) + (point >= 0x800) + (point >= 0x10000);

    ret[0] = (char)(begin[more] | point >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        ret[i] = (char)(0x80 | (point >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* Reads one code point of UTF-8. Returns its length in bytes; 0 if the bytes are not valid UTF-8. */
unsigned gf_utf8_decode(const char *text, uint32_t *ret);

/*
 * Replaces each byte of characters that change a terminal's state by '?', in place: control
 * characters (C0, DEL and C1), marks of text direction, line separators, and invalid UTF-8. Returns
 * text.
 */
char *gf_plain_text(char *text);
/* Whether gf_plain_text would leave the text as it is. */
bool gf_is_plain_text(const char *text);
