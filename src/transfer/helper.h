/* SPDX-License-Identifier: Apache-2.0 */
/* How the helper threads of a pool are made. By our own thread (transfer/pool.h says why). */
#ifndef GF_TRANSFER_HELPER_H
#define GF_TRANSFER_HELPER_H

/*
 * Starts up to `count` detached threads that run run(arg), with every signal blocked, and does not wait for them. 0 or
 * the errno of the first; fewer of them than were asked for are no error. They never end: their stacks are not given back.
 */
int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg);

#endif
