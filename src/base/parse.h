/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers, without locale, allocation or errno. */
#ifndef GF_BASE_PARSE_H
#define GF_BASE_PARSE_H

#include "base/base.h"

/* Whole text as a decimal number. 0, -EINVAL, or -ERANGE; *ret untouched on failure. */
int gf_parse_u64(const char *text, uint64_t *ret);

/* A size in bytes: digits and an optional K, M, G or T (powers of 1024; "KiB" and "KB" alike). */
int gf_parse_size(const char *text, uint64_t *ret);

/* Of A to Z, whatever the locale. */
static inline char gf_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether both begin with the same length characters, upper and lower case alike. */
bool gf_same_start(const char *a, const char *b, size_t length);

/* Whether both are the same word, upper and lower case alike. */
bool gf_same_word(const char *a, const char *b);

#endif
