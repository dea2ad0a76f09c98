/* SPDX-License-Identifier: Apache-2.0 */
/* The native frames of a stopped thread, by libunwind-ptrace. */
#ifndef GF_STACKS_NATIVE_FRAMES_H
#define GF_STACKS_NATIVE_FRAMES_H

#include "base/base.h"

#include <sys/types.h>

/* Creates an unwinder for all threads of one target. Returns NULL if memory is short. */
struct gf_native_unwinder;
struct gf_native_unwinder *gf_native_unwinder_new(void);
void gf_native_unwinder_free(struct gf_native_unwinder *unwinder);

/*
 * Stores the address that each frame executes, innermost first. Returns the number of frames; 0 if
 * the thread cannot be read.
 */
size_t gf_native_frames(struct gf_native_unwinder *unwinder, pid_t tid, uintptr_t *ret, size_t cap);

#endif
