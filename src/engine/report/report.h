/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the report as JSON; docs/report.md describes its fields. */
#pragma once

#include "engine/report/report_data.h"

/*
 * Writes the report into buf. Like snprintf, returns the length of the whole report, which may
 * exceed `size`.
 */
size_t gf_report_json(const struct gf_report *report, char *buf, size_t size);

/* Adds a sample. If the table is full, first removes every second sample. Never fails. */
void gf_report_add_sample(struct gf_report *report, const struct gf_report_sample *sample);

const char *gf_report_event_name(enum gf_report_event_kind kind);
