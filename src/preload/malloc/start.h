/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of the preload library. It has no constructor: the first call of the malloc family, or
 * of a hook that needs the heap, starts it. Usually that happens before main, under the loader's
 * lock.
 */
#ifndef GF_PRELOAD_MALLOC_START_H
#define GF_PRELOAD_MALLOC_START_H

#include "config/options.h"
#include "preload/heap/mode.h"

/*
 * Whether the loader has relocated this object and initialised the first thread's variables. It has
 * not while the resolver of another library's indirect function runs. Until then code must not use
 * a pointer table, a thread-local variable or a function of another object, so that jemalloc cannot
 * start.
 */
static inline bool gf_start_loaded(void)
{
    /* The loader relocates addresses first, and initialises thread-local variables last. */
    static const volatile uintptr_t relocated = (uintptr_t)&gf_mode_now;
    static __thread volatile bool initialised = true;

    return relocated == (uintptr_t)&gf_mode_now && initialised;
}

/*
 * Decides which allocator serves malloc and, with GPUFEED_LOG, opens the log. Idempotent; any
 * thread; keeps errno. Other threads wait here until the mode is decided. A nested call on the
 * deciding thread returns at once.
 */
void gf_start(void);

/*
 * Opens the log, and watches for stalls if the options ask for it. Idempotent; called after
 * gf_start.
 */
void gf_start_watch(const struct gf_options *options);

/*
 * The process has a log or feeds a GPU: finds which of the calls of os/permit.h it may make, and
 * lets the heap make them.
 */
void gf_start_probes(unsigned wanted);

#endif
