/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_TOOLS_STACKS_CMD_STACKS_H
#define GF_TOOLS_STACKS_CMD_STACKS_H

/*
 * The verb `stacks`: executes gpufeed-stacks in place of this command. Returns an exit code only if
 * it has printed the help or an error instead.
 */
int gf_cmd_stacks(int argc, char **argv);

#endif
