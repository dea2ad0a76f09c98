/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option name or value that a misspelt one most likely means (distance: base/nearest_word.h).
 */
#ifndef GF_CONFIG_SUGGEST_H
#define GF_CONFIG_SUGGEST_H

#include "config/options.h"

/*
 * The variable that an unknown GPUFEED_ name most likely means; the names are compared without the
 * prefix. For "GPUFEED_DISABLE" and the like, the assignment with that effect. NULL if no name is
 * close.
 */
const char *gf_suggest_name(const char *name);

/*
 * The word of the row that a rejected value most likely means: one that begins with the value, or
 * the closest one. NULL if no word is close, for a value of one letter, and for rows without words.
 */
const char *gf_suggest_value(const struct gf_option_row *row, const char *value);

#endif
