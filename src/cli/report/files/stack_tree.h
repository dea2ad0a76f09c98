/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_FILES_STACK_TREE_H
#define GF_CLI_REPORT_FILES_STACK_TREE_H

#include "cli/report/input/job.h"

/*
 * Returns the stalled time as a tree of frames {"name", "us", "children"}. The root is the sum of
 * all stalls, and its children are the outermost frames. The child of an innermost frame is the
 * cause. Frames with less than a thousandth of the time are omitted. The caller drops the
 * reference; NULL if memory is short.
 */
json_t *gf_stack_tree(const struct gf_job *job);

#endif
