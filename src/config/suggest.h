/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for misspelt option names and values (distance: base/nearest_word.h). */
#ifndef GF_CONFIG_SUGGEST_H
#define GF_CONFIG_SUGGEST_H

#include "config/options.h"

/*
 * The option that is closest to an unknown GPUFEED_ name, compared without the prefix. For names
 * such as GPUFEED_DISABLE, the assignment with that effect: "GPUFEED=off". NULL if no name is
 * close.
 */
const char *gf_suggest_name(const char *name);

/*
 * A word of the row for a rejected value: one that begins with the value, or the closest one. NULL
 * if no word is close, for a value of one letter, and for rows without words.
 */
const char *gf_suggest_value(const struct gf_option_row *row, const char *value);

#endif
