/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_RUN_CMD_PRELOAD_PATH_H
#define GF_CLI_RUN_CMD_PRELOAD_PATH_H

/* The verb `preload-path`: argv[0] is its name. Returns the exit code (cli/common/cli.h). */
int gf_cmd_preload_path(int argc, char **argv);

#endif
