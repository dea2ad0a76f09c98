/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CONFIG_SUGGEST_H
#define GF_CONFIG_SUGGEST_H

/*
 * The option's variable that an unknown GPUFEED_ name most likely means: at most
 * min(3, 1 + length/4) edits away, compared without the prefix. NULL when none is near.
 */
const char *gf_suggest(const char *name);

struct gf_option_row;

/*
 * The word of the row that a bad value most likely means: one that it is the start of, or the nearest within as
 * many edits. NULL when none is near, for a single letter (near to all that is short), and where there are no words.
 */
const char *gf_suggest_value(const struct gf_option_row *row, const char *value);

/*
 * Edits (insert, delete, change, swap of neighbours) that turn a into b, upper and lower case alike; a
 * large number when either has more than 48 characters.
 */
unsigned gf_edits(const char *a, const char *b);

#endif
