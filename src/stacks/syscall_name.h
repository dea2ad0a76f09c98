/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_STACKS_SYSCALL_NAME_H
#define GF_STACKS_SYSCALL_NAME_H

/*
 * Returns the name of a system call in which threads often wait; NULL if the call is not in the
 * table.
 */
const char *gf_syscall_name(long number);

#endif
