/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report's sections "stalls", "latency" and "log". */
#ifndef GF_ENGINE_REPORT_REPORT_STALLS_H
#define GF_ENGINE_REPORT_REPORT_STALLS_H

#include "base/json.h"
#include "engine/report/report_data.h"

void gf_report_stalls_put(struct gf_json *json, const struct gf_report *report);

#endif
