/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_STACKS_CMD_STACKS_H
#define GF_CLI_STACKS_CMD_STACKS_H

/* `gpufeed stacks`: replaces this process by gpufeed-stacks. Returns only if that fails. */
int gf_cmd_stacks(int argc, char **argv);

#endif
