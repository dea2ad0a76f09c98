/* SPDX-License-Identifier: Apache-2.0 */
/* Describes mistakes in options: the error, the value that is used, and the closest valid value. */
#ifndef GF_CONFIG_VALIDATE_H
#define GF_CONFIG_VALIDATE_H

#include "config/options.h"

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

/* Whether gf_validate_environment would report the entry "NAME=value". */
bool gf_validate_rejects(const char *entry);

#endif
