/* SPDX-License-Identifier: Apache-2.0 */
/* The sections `steps` and `step_times` of the report. */
#ifndef GF_ENGINE_REPORT_REPORT_STEPS_H
#define GF_ENGINE_REPORT_REPORT_STEPS_H

#include "base/json.h"
#include "engine/report/report_data.h"

void gf_report_steps_put(struct gf_json *json, const struct gf_report *report);

#endif
