/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_EVENT_TEXT_H
#define GF_CLI_REPORT_OUTPUT_EVENT_TEXT_H

#include "cli/report/input/scan.h"

/*
 * Prints all fields of an event, and the date before the first event of a day. If the line is not an
 * event, prints nothing and returns false.
 */
bool gf_event_print(struct gf_span line);

#endif
