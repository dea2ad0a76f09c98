/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_INPUT_JOB_STACK_H
#define GF_CLI_REPORT_INPUT_JOB_STACK_H

#include "cli/report/input/event.h"
#include "cli/report/input/job.h"

/*
 * Returns the index of a stall's stack: its Python frames or, without them, its native frames.
 * Equal stacks have the same index, so each stack's function names are looked up once. Returns
 * UINT32_MAX if memory is short.
 */
uint32_t gf_job_stack_of(struct gf_job *job, const struct gf_event *event);

#endif
