/* SPDX-License-Identifier: Apache-2.0 */
/* Parses numbers from text, without locale, allocation or errno. */
#ifndef GF_BASE_PARSE_H
#define GF_BASE_PARSE_H

#include "base/base.h"

/*
 * Parses the whole text as a decimal number. 0, -EINVAL or -ERANGE; *ret is unchanged on failure.
 */
int gf_parse_u64(const char *text, uint64_t *ret);

/*
 * Parses a size in bytes: digits and an optional K, M, G or T (powers of 1024; "KiB" and "KB" are
 * the same).
 */
int gf_parse_size(const char *text, uint64_t *ret);

/* Lower case of A to Z, whatever the locale is. */
static inline char gf_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the first `length` characters of both are equal, ignoring case. */
bool gf_same_start(const char *a, const char *b, size_t length);

/* Whether both words are equal, ignoring case. */
bool gf_same_word(const char *a, const char *b);

#endif
