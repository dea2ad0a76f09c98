/* SPDX-License-Identifier: Apache-2.0 */
/* Texts about options: values, mistakes, suggestions. */
#pragma once

#include "config/options.h"

/*
 * Writes the valid values as a synopsis: "auto|node|off", "0..2", "auto|4K..1G", "off|PATH"; or in
 * words: "auto, node, off", "0 to 2", "auto, 4K to 1G". Returns buf.
 */
const char *gf_option_text_allowed(const struct gf_option_row *row, bool is_synopsis, char *buf,
                                   size_t size);

/* Returns the row's value in o as text, never NULL. The text is valid until o or buf changes. */
const char *gf_option_text_value(const struct gf_options *o, const struct gf_option_row *row,
                                 char *buf, size_t size);

/*
 * Returns the name of the option that is closest (base/parse.h) to an unknown GPUFEED_ name. The
 * prefix is not compared. For a name such as GPUFEED_DISABLE, returns the assignment that has this
 * effect: "GPUFEED=off". Returns NULL if no name is close.
 */
const char *gf_suggest_name(const char *name);

/*
 * Returns the valid word of the row that begins with a rejected value, or the word that is closest
 * to it. Returns NULL if no word is close, if the value has fewer than two letters, or if the row
 * has no words.
 */
const char *gf_suggest_value(const struct gf_option_row *row, const char *value);

/*
 * Describes why gf_option_check rejects a value: "is not valid; allowed: auto, node, off (did you
 * mean off?)". Returns buf.
 */
const char *gf_validate_value(const struct gf_option_row *row, const char *value, char *buf,
                              size_t size);

/*
 * Calls report(closure, line) once for each invalid value and each unknown GPUFEED_ name in envp,
 * which may be NULL. from_run: whether `line` names the default under `gpufeed run`.
 */
void gf_validate_environment(char *const *envp, bool from_run,
                             void (*report)(void *closure, const char *line), void *closure);

/* Whether the entry "NAME=value" has no effect: it is reported, or the value is empty. */
bool gf_validate_rejects(const char *entry);
