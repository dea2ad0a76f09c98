/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_EVENT_TEXT_H
#define GF_CLI_REPORT_OUTPUT_EVENT_TEXT_H

#include "cli/report/input/scan.h"

/*
 * Prints a line of a log on standard output, in full. Before the first event of a day it prints the
 * date. False if the line is not an event; then nothing is printed.
 */
bool gf_event_print(struct gf_span line);

#endif
