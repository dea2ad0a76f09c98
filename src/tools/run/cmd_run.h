/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_RUN_CMD_RUN_H
#define GF_TOOLS_RUN_CMD_RUN_H

/* The verb `run`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_run(int argc, char **argv);

#endif
