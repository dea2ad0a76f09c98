/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_TOPO_CMD_TOPO_H
#define GF_TOOLS_TOPO_CMD_TOPO_H

/* The verb `topo`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_topo(int argc, char **argv);

#endif
