/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function in a child process, so that what it sets for its process ends with the child. */
#ifndef GF_ENGINE_MACHINE_CHILD_CALL_H
#define GF_ENGINE_MACHINE_CHILD_CALL_H

/*
 * The child shares this memory, and the caller waits for it. The function makes only system calls.
 * 0 if the child ran. But under a tool that turns the clone into a fork, the child writes to a copy
 * of the memory. Otherwise -errno. Any thread; keeps errno.
 */
int gf_child_call(int (*function)(void *closure), void *closure);

#endif
