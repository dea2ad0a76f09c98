/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the engine, once, after the first successful cuInit of the process. */
#ifndef GF_PRELOAD_HOOK_ATTACH_ATTACH_H
#define GF_PRELOAD_HOOK_ATTACH_ATTACH_H

#include "abi/engine_api.h"
#include "base/base.h"

/*
 * Called after cuInit succeeded. The first caller starts the library's thread, which loads the
 * engine, and waits for the load with a time limit. The first caller stops waiting if the library's
 * thread must wait for the loader's lock, because the lock's holder may be the caller, or may wait
 * for the caller. All other callers return at once. A child that is forked afterwards never loads
 * an engine, because the driver does not work in it. Keeps errno and dlerror. If the load fails,
 * every call passes through.
 */
void gf_attach(void);

/*
 * Returns the engine of this process. Returns NULL before the engine is loaded, and in a forked
 * child. Before the engine is loaded, a call reads only one word.
 */
const struct gf_engine *gf_engine(void);

/*
 * For hooks: returns the engine, and marks the calling thread, so that the engine's own CUDA calls
 * pass through. Returns NULL if the thread is already marked, and on threads of this library. After
 * each call that returns an engine, gf_engine_leave must be called.
 */
const struct gf_engine *gf_engine_enter(void);
void gf_engine_leave(void);

#endif
