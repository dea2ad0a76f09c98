/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"
#include "tools/job/sources.h"

/*
 * Prints all events that pass the filter on standard output, in the order of their times. Damaged
 * lines are named on standard error. filter->last_s is ignored. Returns false if a source cannot be
 * read, or if an operand names a file that is not a log.
 */
bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter);
