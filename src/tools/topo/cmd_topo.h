/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verb `topo`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_topo(int argc, char **argv);
