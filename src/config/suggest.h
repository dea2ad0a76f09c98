/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggests valid words for misspelt option names and values (by the edit distance of
 * base/nearest_word.h).
 */
#ifndef GF_CONFIG_SUGGEST_H
#define GF_CONFIG_SUGGEST_H

#include "config/options.h"

/*
 * Returns the name of the option that is closest to an unknown GPUFEED_ name. The prefix is not
 * compared. For a name such as GPUFEED_DISABLE, returns the assignment that has this effect:
 * "GPUFEED=off". Returns NULL if no name is close.
 */
const char *gf_suggest_name(const char *name);

/*
 * Returns the valid word of the row that begins with a rejected value, or the word that is closest
 * to it. Returns NULL if no word is close, if the value has fewer than two letters, or if the row
 * has no words.
 */
const char *gf_suggest_value(const struct gf_option_row *row, const char *value);

#endif
