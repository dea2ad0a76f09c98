/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_DOCTOR_CMD_DOCTOR_H
#define GF_TOOLS_DOCTOR_CMD_DOCTOR_H

/* The verb `doctor`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_doctor(int argc, char **argv);

#endif
