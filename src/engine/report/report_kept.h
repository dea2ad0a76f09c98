/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the report's section "kept": all memory that the library holds and the program does not
 * use.
 */
#ifndef GF_ENGINE_REPORT_REPORT_KEPT_H
#define GF_ENGINE_REPORT_REPORT_KEPT_H

#include "base/json.h"
#include "engine/report/report_data.h"

void gf_report_kept_put(struct gf_json *json, const struct gf_report *report);

#endif
