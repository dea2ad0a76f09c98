/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_FILES_STACK_TREE_H
#define GF_CLI_REPORT_FILES_STACK_TREE_H

#include "cli/report/input/job.h"

/*
 * The stalled time by stack, the outermost frame first: {"name", "us", "children"}. Below the
 * innermost frame stands the cause. Frames with less than a thousandth of the whole time are left
 * out. The caller drops the reference; NULL if memory is short.
 */
json_t *gf_stack_tree(const struct gf_job *job);

#endif
