/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from text; the nearest valid word. */
#pragma once

#include "base/base.h"

/* Parses numbers from text, without locale, allocation or errno. */

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

/* Finds the valid word that is closest to a misspelt one, for "did you mean". */

struct gf_nearest_word {
    const char *wanted; /* what the user wrote */
    const char *found;  /* result of the closest candidate so far; NULL if none is close enough */
    unsigned edits;     /* number of edits; only a candidate with fewer edits replaces `found` */
};

/*
 * Starts a search. Candidates with more than min(3, 1 + length/4) edits are ignored, where `length`
 * is the number of characters of `wanted`; if `wanted` has at most four characters, candidates with
 * more than one edit.
 */
void gf_nearest_word_begin(struct gf_nearest_word *search, const char *wanted);

/*
 * Compares one candidate. If it is closer than all earlier ones, `found` becomes `result`, which
 * must outlive the search. One edit inserts, deletes or changes a character, or swaps two
 * neighbours. Case is ignored. Words of more than 48 characters match nothing.
 */
void gf_nearest_word_try(struct gf_nearest_word *search, const char *candidate, const char *result);
