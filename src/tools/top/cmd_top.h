/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verb `top`: argv[0] is its name. Returns the exit code (tools/common/cli.h). */
int gf_cmd_top(int argc, char **argv);
