/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the valid values and the current value of an option as text. */
#ifndef GF_CONFIG_OPTION_TEXT_H
#define GF_CONFIG_OPTION_TEXT_H

#include "config/options.h"

/* Writes the valid values in words: "auto, node, off", "0 to 2", "auto, 4K to 1G". Returns buf. */
const char *gf_option_text_allowed(const struct gf_option_row *row, char *buf, size_t size);

/*
 * Writes the valid values as a synopsis: "auto|node|off", "0..2", "auto|4K..1G", "off|PATH".
 * Returns buf.
 */
const char *gf_option_text_form(const struct gf_option_row *row, char *buf, size_t size);

/* Returns the row's value in o as text, never NULL. The text is valid until o or buf changes. */
const char *gf_option_text_value(const struct gf_options *o, const struct gf_option_row *row,
                                 char *buf, size_t size);

#endif
