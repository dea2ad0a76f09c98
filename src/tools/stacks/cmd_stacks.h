/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verb `stacks`: executes gpufeed-stacks in place of this command. Returns an exit code only if
 * it has printed the help or an error instead.
 */
int gf_cmd_stacks(int argc, char **argv);
