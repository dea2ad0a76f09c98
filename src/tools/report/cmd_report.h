/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_REPORT_CMD_REPORT_H
#define GF_TOOLS_REPORT_CMD_REPORT_H

/* The verb `report`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_report(int argc, char **argv);

#endif
