/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the valid word that is closest to a misspelt one, for "did you mean". */
#ifndef GF_BASE_NEAREST_WORD_H
#define GF_BASE_NEAREST_WORD_H

#include "base/base.h"

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

#endif
