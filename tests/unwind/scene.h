/* SPDX-License-Identifier: Apache-2.0 */
/* A small program to step through: calls through the PLT, the vdso, a signal's frame, odd frames. */
#ifndef GF_TESTS_UNWIND_SCENE_H
#define GF_TESTS_UNWIND_SCENE_H

/*
 * The same source is built twice: optimized, and with a frame pointer in each function. Both
 * programs handle SIGUSR1, which may arrive at any time.
 */
void scene_optimized(void);
void scene_plain(void);

#endif
