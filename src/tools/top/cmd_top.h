/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_TOP_CMD_TOP_H
#define GF_TOOLS_TOP_CMD_TOP_H

/* The verb `top`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_top(int argc, char **argv);

#endif
