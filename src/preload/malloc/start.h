/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the library. */
#pragma once

#include "base/base.h"
#include "config/options.h"
#include "preload/heap/mode.h"

#define GF_STACK_LARGE ((size_t)1 << 20) /* stacks of this size need no addition */

/*
 * Starts the preload library. The library has no constructor. The first call of the malloc family,
 * or of a hook that needs the heap, starts it. Usually that is before main, under the loader's
 * lock.
 */

/*
 * Whether the loader has relocated this object and initialised the first thread's thread-local
 * variables. Before that, the resolver of an indirect function (IFUNC) of another library may call
 * malloc. Such a call must not use a pointer table, a thread-local variable or a function of
 * another object, so jemalloc cannot start.
 */
static inline bool gf_start_loaded(void)
{
    /*
     * The loader relocates addresses first, and initialises thread-local variables last, so both
     * are tested.
     */
    static const volatile uintptr_t relocated = (uintptr_t)&gf_mode_now;
    static __thread volatile bool initialised = true;

    return relocated == (uintptr_t)&gf_mode_now && initialised;
}

/*
 * Decides which allocator serves malloc, and opens the log if GPUFEED_LOG is set. Idempotent. Keeps
 * errno. May be called on any thread. Other threads that call it wait until the decision is made. A
 * nested call on the deciding thread returns at once.
 */
void gf_start(void);

/* The same inside calloc, which libc may call while it holds a lock of its list of exit handlers. */
void gf_start_in_calloc(void);

/*
 * Opens the log if GPUFEED_LOG is set, and watches for stalls unless GPUFEED_STALL_US is 0.
 * Idempotent; called after gf_start.
 */
void gf_start_watch(const struct gf_options *options);

/*
 * Called if the process has a log or uses a GPU. Finds out which of the wanted system calls
 * (os/permit.h) the process may make, and allows the heap to make them.
 */
void gf_start_probes(unsigned wanted);
