/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_COMPARE_CMD_COMPARE_H
#define GF_TOOLS_COMPARE_CMD_COMPARE_H

/* The verb `compare`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_compare(int argc, char **argv);

#endif
