/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, stalls, latency. */
#pragma once

#include "base/json.h"
#include "engine/report/report_data.h"

/* The sections `steps` and `step_times` of the report, and the slow steps of the log. */
void gf_report_steps_put(struct gf_json *json, const struct gf_report *report);

/* Logs an event. fields: a JSON object. */
typedef void gf_report_steps_log_fn(const char *event, const char *fields);

/*
 * Logs the slow steps that have become the longest since the last call, and what was different in
 * them. Steps whose facts are not complete yet are logged by a later call, or if `last` is true. If
 * two threads call this function at the same time, one of the calls does nothing.
 */
void gf_report_steps_log(const struct gf_step_times *times, bool last, gf_report_steps_log_fn *log);

/* Writes the report's sections "stalls", "latency" and "log". */
void gf_report_stalls_put(struct gf_json *json, const struct gf_report *report);
