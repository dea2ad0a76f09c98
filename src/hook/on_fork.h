/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_HOOK_ON_FORK_H
#define GF_HOOK_ON_FORK_H

/* Registers, behind the heap's, what was asked for before the loader was done with the door. Once, by who brings the heap up. */
void gf_on_fork_register_early(void);

#endif
