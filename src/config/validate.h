/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes in options: the error, the value used instead, and the value that the user most likely
 * meant.
 */
#ifndef GF_CONFIG_VALIDATE_H
#define GF_CONFIG_VALIDATE_H

#include "config/options.h"

/*
 * Describes the error of a value that gf_option_check rejects: "is not valid; allowed: auto, node,
 * off (did you mean off?)". Returns buf.
 */
const char *gf_validate_value(const struct gf_option_row *row, const char *value, char *buf,
                              size_t size);

/*
 * Calls report(closure, line) once for each invalid value and each unknown GPUFEED_ name in envp,
 * which may be NULL. from_run: the lines name the defaults of `gpufeed run`.
 */
void gf_validate_environment(char *const *envp, bool from_run,
                             void (*report)(void *closure, const char *line), void *closure);

/* Whether gf_validate_environment would report the entry "NAME=value". */
bool gf_validate_rejects(const char *entry);

#endif
