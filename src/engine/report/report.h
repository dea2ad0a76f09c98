/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON report; docs/report.md describes its fields. */
#ifndef GF_ENGINE_REPORT_REPORT_H
#define GF_ENGINE_REPORT_REPORT_H

#include "engine/report/report_data.h"

/* Writes the report. Like snprintf, returns the length that the whole report needs. */
size_t gf_report_json(const struct gf_report *report, char *buf, size_t size);

/* Adds a sample. If the table is full, drops every other sample first; never fails. */
void gf_report_add_sample(struct gf_report *report, const struct gf_report_sample *sample);

const char *gf_report_event_name(enum gf_report_event_kind kind);

#endif
