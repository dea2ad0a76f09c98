/* SPDX-License-Identifier: Apache-2.0 */
/* Parses numbers from text, without locale, allocation or errno. */
#ifndef GF_BASE_PARSE_H
#define GF_BASE_PARSE_H

#include "base/base.h"

/*
 * Parses the whole text as a decimal number. Returns 0, -EINVAL or -ERANGE; on failure *ret is
 * unchanged.
 */
int gf_parse_u64(const char *text, uint64_t *ret);

/*
 * Parses a size in bytes in the same way: digits and an optional unit K, M, G or T. The units are
 * powers of 1024. "KiB" and "KB" mean the same as "K".
 */
int gf_parse_size(const char *text, uint64_t *ret);

/* Converts A to Z to lower case, in every locale. */
static inline char gf_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the first `length` characters of both texts are equal, ignoring case. */
bool gf_same_start(const char *a, const char *b, size_t length);

/* Whether both words are equal, ignoring case. */
bool gf_same_word(const char *a, const char *b);

#endif
