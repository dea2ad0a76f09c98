/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed top --json`. docs/top.md describes the fields. */
#ifndef GF_CLI_TOP_TOP_JSON_H
#define GF_CLI_TOP_TOP_JSON_H

#include "cli/top/process_figures.h"

/* Returns a process as an object, or NULL if memory is short. The caller drops the reference. */
json_t *gf_top_json_row(const struct gf_snapshot *snapshot, const struct gf_top_history *history);

#endif
