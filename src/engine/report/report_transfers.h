/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report's sections about copies and pinned memory: `transfers` and `copy_waits`. */
#pragma once

#include "base/json.h"
#include "engine/report/report_data.h"

void gf_report_transfers_put(struct gf_json *json, const struct gf_report_transfers *transfers,
                             gf_hook_counts_each *each_hook);

/* Copies of pageable memory that waited for earlier work of their own stream. */
void gf_report_copy_waits_put(struct gf_json *json, const struct gf_report *report);
