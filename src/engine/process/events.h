/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of this process for the log and the report. The functions may be called on any
 * thread, and take no lock.
 */
#ifndef GF_ENGINE_PROCESS_EVENTS_H
#define GF_ENGINE_PROCESS_EVENTS_H

#include "engine/report/report_data.h"

/* Writes an event to the log, and keeps it for the report. Prints nothing. */
void gf_events_record(enum gf_report_event_kind kind, const char *text);

/* Like gf_events_record, but first prints the text on standard error at GPUFEED_VERBOSE=1. */
void gf_events_announce(enum gf_report_event_kind kind, const char *format, ...) GF_PRINTF(2, 3);

/* Prints a line about a decision on standard error, and writes the decision's event to the log. */
void gf_events_announce_decision(const struct gf_decision *decision);

/* Copies all events so far into the report. */
void gf_events_collect(struct gf_report *report);

#endif
