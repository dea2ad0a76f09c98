/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_EVENT_LIST_H
#define GF_CLI_REPORT_OUTPUT_EVENT_LIST_H

#include "cli/report/input/job_filter.h"
#include "cli/report/input/sources.h"

/*
 * Prints every event of the logs that the filter takes, merged by time, on standard output. Lines
 * that are no events are named on standard error; reports are left out. filter->last_s is ignored.
 * False if a named source cannot be read or is not a log.
 */
bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter);

#endif
