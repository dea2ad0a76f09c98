/* SPDX-License-Identifier: Apache-2.0 */
/* Options as text: their valid values and their current value. */
#ifndef GF_CONFIG_OPTION_TEXT_H
#define GF_CONFIG_OPTION_TEXT_H

#include "config/options.h"

/* The valid values in words: "auto, node, off", "0 to 2", "auto, 4K to 1G". Returns buf. */
const char *gf_option_text_allowed(const struct gf_option_row *row, char *buf, size_t size);

/*
 * The valid values as a synopsis: "auto|node|off", "0..2", "auto|4K..1G", "off|PATH". Returns buf.
 */
const char *gf_option_text_form(const struct gf_option_row *row, char *buf, size_t size);

/* The row's value in o as text, valid until o or buf changes. Never NULL. */
const char *gf_option_text_value(const struct gf_options *o, const struct gf_option_row *row,
                                 char *buf, size_t size);

#endif
